// The mutation check: npm run test:mutation [-- --sample N --seed N --jobs N] [part of a path …]
// Applies small changes to the sources, one by one in copies of the tree, and lists the changes that no test notices.
import { spawn, execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { basename, dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { mutationsOf } from './mutations.mjs'

/** The sources that are changed. */
const ROOMS = ['src/http/', 'src/tasks/', 'src/ndjson/', 'src/policies/', 'src/versions/', 'src/bulk/', 'src/engine/', 'src/content/', 'src/resources/', 'src/callbacks/']
/** The tests that run: those that need no Redis and no browser, and take less than a minute. */
const TESTS = [
  'test/unit/', 'test/http/hosts/node-', 'test/http/hosts/upstream', 'test/http/hosts/fetch.test',
  'test/http/hosts/limit-sending', 'test/http/tasks/', 'test/http/ndjson/',
  'test/http/policies/middleware', 'test/http/reference/ndjson', 'test/http/reference/versions',
  'test/http/reference/openapi', 'test/http/reference/bulk.test', 'test/http/docs/bulk-guide',
  'test/http/content/', 'test/http/callbacks/',
]
const { values, positionals } = parseArgs({
  options: {
    sample: { type: 'string' }, seed: { type: 'string', default: '1' }, jobs: { type: 'string', default: String(availableParallelism()) },
    timeout: { type: 'string', default: '20' },
  },
  allowPositionals: true,
})
const root = resolve(dirname(fileURLToPath(import.meta.url)), '..')
const timeoutMs = Number(values.timeout) * 1000
const tracked = execFileSync('git', ['ls-files'], { cwd: root, encoding: 'utf8' }).split('\n').filter((file) => file !== '' && existsSync(join(root, file)))

const roomOf = (file) => ROOMS.find((room) => (typeof room === 'string' ? file.startsWith(room) : room.test(file)))
const sources = tracked.filter((file) => file.endsWith('.ts') && roomOf(file) !== undefined && basename(file) !== 'index.ts')
  .filter((file) => positionals.length === 0 || positionals.some((part) => file.includes(part)))
const all = sources.flatMap((file) => mutationsOf(file, readFileSync(join(root, file), 'utf8')))
const chosen = values.sample === undefined ? all : sampled(all, Number(values.sample), Number(values.seed))
if (chosen.length === 0) throw new Error('There is nothing to break')

/** Draws a sample. The same seed gives the same sample. */
function sampled(list, count, seed) {
  let state = seed >>> 0
  const random = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  return list.map((mutation) => ({ mutation, at: random() })).sort((a, b) => a.at - b.at).slice(0, count).map(({ mutation }) => mutation)
}

/** One program for all test files: starting one for each would take longer than the tests. */
const RUNNER = 'for (const file of process.argv.slice(2)) await import(new URL(file, "file://" + process.cwd() + "/").href)\n'

const folder = realpathSync(mkdtempSync(join(tmpdir(), 'longhaul-mutate-')))
function copy(worker) {
  const to = join(folder, String(worker))
  for (const file of tracked) {
    if (/^(?:docs\/spec|docs\/api|bench)/.test(file)) continue
    mkdirSync(dirname(join(to, file)), { recursive: true })
    cpSync(join(root, file), join(to, file))
  }
  symlinkSync(join(root, 'node_modules'), join(to, 'node_modules'))
  writeFileSync(join(to, 'mutate-runner.mjs'), RUNNER)
  return to
}

/** Returns true if all tests pass. Ends at the first failure, or if they take much longer than expected. */
function passes(cwd, files, limitMs = timeoutMs, more = {}) {
  return new Promise((done) => {
    const { NODE_TEST_CONTEXT: _, ...env } = process.env
    const child = spawn(process.execPath, ['--import', import.meta.resolve('tsx'), 'mutate-runner.mjs', ...files], { cwd, env: { ...env, NODE_NO_WARNINGS: '1', ...more }, detached: true })
    let tail = ''
    let failed = false
    const kill = () => {
      failed = true
      try { process.kill(-child.pid, 'SIGKILL') } catch { /* It has ended by itself. */ }
    }
    const timer = setTimeout(kill, limitMs)
    const look = (chunk) => {
      tail = (tail + chunk).slice(-2000)
      if (/^ *not ok |✖/m.test(tail)) kill()
    }
    child.stdout.on('data', look)
    child.stderr.resume()
    child.on('close', (code) => {
      clearTimeout(timer)
      done(!failed && code === 0)
    })
  })
}

/** Functions that each test file runs, by its path: `{ ms, runs, text }`. `runs` has the names of the functions of each source. */
const known = new Map()

/** Runs each test file alone once, with the coverage of V8. Leaves out a file that fails without a change. */
async function learn(cwd, files) {
  for (let test = files.shift(); test !== undefined; test = files.shift()) {
    const to = mkdtempSync(join(folder, 'coverage-'))
    const since = Date.now()
    const sound = await passes(cwd, [test], 4 * timeoutMs, { NODE_V8_COVERAGE: to })
    const ms = Date.now() - since
    if (sound) known.set(test, { ms, runs: functionsIn(to, cwd), text: readFileSync(join(cwd, test), 'utf8') })
    else console.log(`left out, since it fails with nothing broken: ${test}`)
    rmSync(to, { recursive: true, force: true })
  }
}

/** Returns the names of the functions of each source that have run. `''` is code outside of functions. */
function functionsIn(reports, cwd) {
  const runs = new Map()
  for (const report of readdirSync(reports)) {
    for (const { url, functions } of JSON.parse(readFileSync(join(reports, report), 'utf8')).result) {
      const path = url.startsWith('file:') ? relative(cwd, fileURLToPath(url.split('?')[0])) : ''
      if (!path.startsWith('src/')) continue
      const names = runs.get(path) ?? new Set()
      for (const { functionName, ranges } of functions) if (ranges[0].count > 0) names.add(functionName)
      runs.set(path, names)
    }
  }
  return runs
}

/** Returns the tests that run the changed code. Those that are likely to fail soonest come first. */
function testsFor({ file, within }) {
  const name = basename(file, '.ts')
  const has = ([, { runs }]) => runs.has(file) && (within === undefined || runs.get(file).has(within))
  // A test that imports the module, or is named after it, tests it.
  const cost = ([test, { ms, text }]) => ms / (test.includes(name) || text.includes(`/${name}.js'`) ? 20 : 1)
  return [...known].filter(has).sort((a, b) => cost(a) - cost(b)).map(([test, { ms }]) => ({ test, ms }))
}

/** Number of tests that run first. They notice most changes, and the others take most of the time. */
const NEAREST = [3, 24]
const survivors = []
let tried = 0

/** Returns true if one of these tests notices the present change. */
async function isNoticed(cwd, parts) {
  for (const part of parts) {
    const limitMs = Math.min(4 * timeoutMs, timeoutMs + 3 * part.reduce((sum, { ms }) => sum + ms, 0))
    if (part.length > 0 && !await passes(cwd, part.map(({ test }) => test), limitMs)) return true
  }
  return false
}

/** Applies changes one by one in its own copy of the tree. Calls `onSurvivor` with each that no test notices. */
async function workThrough(cwd, queue, testsOf, onSurvivor) {
  for (let mutation = queue.shift(); mutation !== undefined; mutation = queue.shift()) {
    const path = join(cwd, mutation.file)
    const text = readFileSync(path, 'utf8')
    writeFileSync(path, text.slice(0, mutation.from) + mutation.put + text.slice(mutation.to))
    if (!await isNoticed(cwd, testsOf(testsFor(mutation)))) onSurvivor(mutation)
    writeFileSync(path, text)
    if (++tried % 25 === 0) console.log(`${tried}, ${queue.length} left, ${Math.round((Date.now() - began) / 1000)} s`)
  }
}

function describe({ file, line, what, from, to, put }) {
  const text = readFileSync(join(root, file), 'utf8')
  const one = (part) => part.replaceAll(/\s+/g, ' ').slice(0, 90)
  return `${file}:${line}: ${what}: ${one(text.slice(from, to))} → ${one(put)}`
}

const jobs = Number(values.jobs)
let began = Date.now()
try {
  const tests = tracked.filter((test) => test.endsWith('.test.ts') && TESTS.some((part) => test.startsWith(part)))
  console.log(`${all.length} ways to break ${sources.length} files; ${chosen.length} are tried, seed ${values.seed}; first ${tests.length} test files with nothing broken`)
  const copies = Array.from({ length: jobs }, (_, worker) => copy(worker))
  await Promise.all(copies.map((cwd) => learn(cwd, tests)))
  console.log(`${Math.round((Date.now() - began) / 1000)} s`)
  began = Date.now()
  const [few, some] = NEAREST
  const doubtful = []
  const queue = [...chosen]
  await Promise.all(copies.map((cwd) => workThrough(cwd, queue, (tests) => [tests.slice(0, few), tests.slice(few, some)], (mutation) => {
    doubtful.push(mutation)
    console.log(`not yet noticed  ${describe(mutation)}`)
  })))
  console.log(`\n${doubtful.length} are not noticed by the nearest tests; now by all that run them`)
  const rest = [...doubtful]
  await Promise.all(copies.map((cwd) => workThrough(cwd, rest, (tests) => [tests.slice(some)], (mutation) => {
    survivors.push(mutation)
    console.log(`survived  ${describe(mutation)}`)
  })))
  const killed = chosen.length - survivors.length
  console.log(`\n${killed} of ${chosen.length} were noticed: ${(killed / chosen.length * 100).toFixed(1)} %, in ${Math.round((Date.now() - began) / 60_000)} minutes`)
  for (const room of ROOMS) {
    const own = chosen.filter(({ file }) => roomOf(file) === room)
    if (own.length > 0) console.log(`  ${String(room)}: ${own.length - own.filter((each) => survivors.includes(each)).length} of ${own.length}`)
  }
  for (const survivor of survivors.sort((a, b) => a.file.localeCompare(b.file) || a.line - b.line)) console.log(describe(survivor))
} finally {
  rmSync(folder, { recursive: true, force: true })
}
