// The mutation check: npm run test:mutation [-- --sample N --seed N --jobs N] [part of a path …]
// Breaks the rules one by one, in copies of the tree, and says which breaks no test has noticed.
import { spawn, execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { basename, dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { mutationsOf } from './mutations.mjs'

/** What is broken, the tests that have to notice; `wider` ones are asked only about what these let pass. */
const ROOMS = [
  {
    sources: 'src/http/', tests: ['test/unit/http/', 'test/unit/content/', 'test/unit/resources/'],
    wider: ['test/unit/docs-errors', 'test/unit/ndjson/', 'test/unit/bulk', 'test/unit/policies/', 'test/http/node-', 'test/http/upstream', 'test/http/fetch-binding'],
  },
  { sources: /^src\/tasks\/(?:state|record|ledger|idempotency|attempt)\.ts$/, tests: ['test/unit/tasks/', 'test/http/tasks-'] },
  { sources: 'src/ndjson/', wider: ['test/http/reference-ndjson', 'test/unit/client/ndjson'], tests: ['test/unit/ndjson/', 'test/http/ndjson-'] },
  { sources: 'src/policies/', tests: ['test/unit/policies/', 'test/http/limit-sending'] },
  { sources: 'src/versioning/', tests: ['test/unit/versioning/'], wider: ['test/http/versions-reference', 'test/http/reference-openapi'] },
]
const { values, positionals } = parseArgs({
  options: {
    sample: { type: 'string' }, seed: { type: 'string', default: '1' }, jobs: { type: 'string', default: String(availableParallelism()) },
    timeout: { type: 'string', default: '120' },
  },
  allowPositionals: true,
})
const root = resolve(dirname(fileURLToPath(import.meta.url)), '..')
const timeoutMs = Number(values.timeout) * 1000
const tracked = execFileSync('git', ['ls-files'], { cwd: root, encoding: 'utf8' }).split('\n').filter((file) => file !== '' && existsSync(join(root, file)))

const belongs = (file, to) => (typeof to === 'string' ? file.startsWith(to) : to.test(file))
const roomOf = (file) => ROOMS.find(({ sources }) => belongs(file, sources))
const sources = tracked.filter((file) => file.endsWith('.ts') && roomOf(file) !== undefined && basename(file) !== 'index.ts')
  .filter((file) => positionals.length === 0 || positionals.some((part) => file.includes(part)))
const all = sources.flatMap((file) => mutationsOf(file, readFileSync(join(root, file), 'utf8')))
const chosen = values.sample === undefined ? all : sampled(all, Number(values.sample), Number(values.seed))
if (chosen.length === 0) throw new Error('There is nothing to break')

/** The same ones for the same seed. */
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

function testsFor(file, parts = roomOf(file).tests) {
  const name = basename(file, '.ts')
  const files = tracked.filter((test) => test.endsWith('.test.ts') && !left.has(test) && parts.some((part) => test.startsWith(part)))
  return files.sort((a, b) => Number(b.includes(name)) - Number(a.includes(name)) || Number(a.startsWith('test/http')) - Number(b.startsWith('test/http')) || a.localeCompare(b))
}

/** One program for all test files: starting one for each would take longer than the tests. */
const RUNNER = 'for (const file of process.argv.slice(2)) await import(new URL(file, "file://" + process.cwd() + "/").href)\n'

const folder = mkdtempSync(join(tmpdir(), 'longhaul-mutate-'))
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

/** Whether all tests pass; ends at the first that does not. */
function passes(cwd, files) {
  return new Promise((done) => {
    const { NODE_TEST_CONTEXT: _, ...env } = process.env
    const child = spawn(process.execPath, ['--import', import.meta.resolve('tsx'), 'mutate-runner.mjs', ...files], { cwd, env: { ...env, NODE_NO_WARNINGS: '1' }, detached: true })
    let tail = ''
    let failed = false
    const kill = () => {
      failed = true
      try { process.kill(-child.pid, 'SIGKILL') } catch { /* It has ended by itself. */ }
    }
    const timer = setTimeout(kill, timeoutMs)
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

/** Tests that fail anyway. */
const left = new Set()
const survivors = []
let tried = 0
async function work(worker) {
  const cwd = copy(worker)
  for (let mutation = queue.shift(); mutation !== undefined; mutation = queue.shift()) {
    const path = join(cwd, mutation.file)
    const text = readFileSync(path, 'utf8')
    writeFileSync(path, text.slice(0, mutation.from) + mutation.put + text.slice(mutation.to))
    const wider = testsFor(mutation.file, roomOf(mutation.file).wider ?? [])
    if (await passes(cwd, testsFor(mutation.file)) && (wider.length === 0 || await passes(cwd, wider))) {
      survivors.push(mutation)
      console.log(`survived  ${describe(mutation)}`)
    }
    writeFileSync(path, text)
    if (++tried % 25 === 0) console.log(`${tried} of ${chosen.length}, ${survivors.length} survived`)
  }
}

function describe({ file, line, what, from, to, put }) {
  const text = readFileSync(join(root, file), 'utf8')
  const one = (part) => part.replaceAll(/\s+/g, ' ').slice(0, 90)
  return `${file}:${line}: ${what}: ${one(text.slice(from, to))} → ${one(put)}`
}

const queue = []
try {
  const begun = Date.now()
  const sound = copy('sound')
  for (const room of ROOMS) {
    const file = chosen.find((mutation) => roomOf(mutation.file) === room)?.file
    if (file === undefined || await passes(sound, testsFor(file))) continue
    for (const test of testsFor(file)) {
      if (await passes(sound, [test])) continue
      left.add(test)
      console.log(`left out, since it fails with nothing broken: ${test}`)
    }
    if (!await passes(sound, testsFor(file))) throw new Error(`The tests of ${String(room.sources)} fail in one process with nothing broken`)
  }
  queue.push(...chosen)
  console.log(`${all.length} ways to break ${sources.length} files; ${chosen.length} are tried, seed ${values.seed}; ${Math.round((Date.now() - begun) / 1000)} s for all tests once`)
  await Promise.all(Array.from({ length: Number(values.jobs) }, (_, worker) => work(worker)))
  const killed = chosen.length - survivors.length
  console.log(`\n${killed} of ${chosen.length} were noticed: ${(killed / chosen.length * 100).toFixed(1)} %`)
  for (const room of ROOMS) {
    const own = chosen.filter(({ file }) => roomOf(file) === room)
    if (own.length > 0) console.log(`  ${String(room.sources)}: ${own.length - own.filter((each) => survivors.includes(each)).length} of ${own.length}`)
  }
  for (const survivor of survivors.sort((a, b) => a.file.localeCompare(b.file) || a.line - b.line)) console.log(describe(survivor))
} finally {
  rmSync(folder, { recursive: true, force: true })
}
