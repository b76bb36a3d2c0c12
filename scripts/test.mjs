// Runs the tests: node scripts/test.mjs [--quick | --all] [part of a path …]
// Which files run, and which of them share a process, is said by their paths alone: CONTRIBUTING.md, Tests.
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { dirname, join, relative, resolve, sep } from 'node:path'
import { spec } from 'node:test/reporters'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { BUILT, buildForTests } from './test-build.mjs'
import { missing, startShared } from './test-servers.mjs'

/** Maximum time of a test file, in milliseconds. Most take seconds. */
const FILE_TIMEOUT_MS = Number(process.env.LONGHAUL_TEST_FILE_TIMEOUT_MS ?? 240_000)
/** Maximum time of all tests, in milliseconds. */
const RUN_TIMEOUT_MS = 3_000_000
/** Number of test processes at once. A run within a test has fewer. */
const PROCESSES = Number(process.env.LONGHAUL_TEST_PROCESSES ?? 3 * availableParallelism())
/** Folders whose files share processes, and the maximum number of files in one. */
const SHARED = ['test/unit/']
const FILES_IN_A_PROCESS = 25
/** Number of the files that the report names, because they took longest. */
const LONGEST = 10

const root = resolve(dirname(fileURLToPath(import.meta.url)), '..')
const { values: { quick, all }, positionals } = parseArgs({
  options: { quick: { type: 'boolean', default: false }, all: { type: 'boolean', default: false } }, allowPositionals: true,
})
const parts = positionals.map((part) => part.replace(/^\.\//, ''))

const chosen = readdirSync(join(root, 'test'), { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile() && entry.name.endsWith('.test.ts'))
  .map((entry) => relative(root, join(entry.parentPath, entry.name)).split(sep).join('/'))
  .filter((file) => !quick || file.startsWith('test/unit/'))
  // A file that is asked for by its path runs in any case.
  .filter((file) => all || parts.length > 0 || !file.endsWith('.slow.test.ts'))
  .filter((file) => parts.length === 0 || parts.some((part) => file.includes(part)))
  .sort()

if (chosen.length === 0) {
  console.error(parts.length === 0 ? 'There are no test files.' : `No test file has ${parts.join(' or ')} in its path.`)
  process.exit(1)
}

// Set when a test starts this script: the inner run would report to the outer one.
delete process.env.NODE_TEST_CONTEXT
process.env.LONGHAUL_TEST_PROGRAMS = BUILT
// The reference server keeps its files there, in place of the home directory.
process.env.XDG_STATE_HOME = join(BUILT, `run-${process.pid}`, 'state')
process.chdir(root)

await buildForTests()
const programs = join(BUILT, `run-${process.pid}`)
const stop = new AbortController()
const end = (why) => {
  console.error(why)
  process.exitCode = 1
  stop.abort()
}
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(signal, () => { end(`The tests were ended by ${signal}.`) })
setTimeout(() => { end(`The tests have not ended after ${RUN_TIMEOUT_MS} ms.`) }, RUN_TIMEOUT_MS).unref()

const gaps = await missing(chosen)
const files = chosen.filter((file) => ![...gaps.values()].some((without) => without.includes(file)))
const servers = await startShared(files)
const isLong = (file) => file.endsWith('.slow.test.ts')
try {
  // Most tests wait much. Some long ones load the machine, and have limits of time, so fewer of these run at once.
  await runTests(files.filter((file) => !isLong(file)), PROCESSES, FILE_TIMEOUT_MS)
  await runTests(files.filter(isLong), Math.ceil((2 * PROCESSES) / 3), 2 * FILE_TIMEOUT_MS)
} finally {
  rmSync(programs, { recursive: true, force: true })
  for (const server of servers) await server.stop()
}
for (const [what, without] of gaps) {
  console.log(`\n${what}. Not run: ${without.length} of ${chosen.length} files (${without.join(', ')}).`)
  // A merge needs all of them.
  if (process.env.CI !== undefined) process.exitCode = 1
}

async function runTests(files, processes, timeoutMs) {
  if (files.length === 0 || stop.signal.aborted) return
  process.env.LONGHAUL_TEST_FILE_TIMEOUT_MS = String(timeoutMs)
  const { run } = await import('node:test')
  const took = []
  const groups = writePrograms(files)
  const events = run({
    files: [...groups.keys()], concurrency: Math.min(8, processes), timeout: 10 * timeoutMs, signal: stop.signal,
  })
  events.on('test:fail', ({ todo }) => { if (todo === undefined || todo === false) process.exitCode = 1 })
  for (const kind of ['test:pass', 'test:fail']) {
    events.on(kind, ({ name, nesting, details }) => { if (nesting === 0 && files.includes(name)) took.push([details.duration_ms, name]) })
  }
  const report = events.compose(spec)
  report.pipe(process.stdout, { end: false })
  await new Promise((done, fail) => {
    report.on('end', done)
    report.on('error', fail)
  })
  // A process whose tests passed may have been killed, or may not have ended.
  const failed = [...groups].flatMap(([program, names]) => existsSync(program) ? [names.join(' ')] : [])
  if (failed.length > 0) {
    process.exitCode = 1
    console.log(`\nFailed, or not run to the end, a process a line:\n${failed.join('\n')}`)
  }
  if (took.length <= LONGEST) return
  console.log('\nThe longest files, in seconds:')
  for (const [ms, name] of took.sort(([a], [b]) => b - a).slice(0, LONGEST)) console.log(`${(ms / 1000).toFixed(1).padStart(7)}  ${name}`)
}

/** Writes a program for each process, those of one file first, because they take longest. Returns the files of each. */
function writePrograms(files) {
  const shared = files.filter((file) => SHARED.some((folder) => file.startsWith(folder)))
  const count = Math.ceil(shared.length / FILES_IN_A_PROCESS)
  // Long files of one folder go to different processes.
  const groups = Array.from({ length: count }, (_, group) => shared.filter((_file, at) => at % count === group))
  const alone = files.filter((file) => !shared.includes(file)).map((file) => [file])
  rmSync(programs, { recursive: true, force: true })
  mkdirSync(programs, { recursive: true })
  return new Map([...alone, ...groups].map((group, at) => {
    const program = join(programs, `${at}.mjs`)
    const runner = new URL('./test-group.mjs', import.meta.url).href
    writeFileSync(program, `import { runFiles } from ${JSON.stringify(runner)}\nawait runFiles(import.meta.url, ${JSON.stringify(group)})\n`)
    return [program, group]
  }))
}
