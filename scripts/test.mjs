// Runs the tests: node scripts/test.mjs [part of a path …]
// `node --test` without files passes on some Node versions, so the files are collected here.
import { spawn } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { dirname, join, relative, resolve, sep } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Maximum time of a test file, in milliseconds. Most take seconds. */
const FILE_TIMEOUT_MS = Number(process.env.LONGHAUL_TEST_FILE_TIMEOUT_MS ?? 240_000)
/** Time after which a file whose event loop is blocked is killed, in milliseconds. */
const RUN_TIMEOUT_MS = 3_000_000

const root = resolve(dirname(fileURLToPath(import.meta.url)), '..')
const filters = process.argv.slice(2)

const files = readdirSync(join(root, 'test'), { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile() && entry.name.endsWith('.test.ts'))
  .map((entry) => relative(root, join(entry.parentPath, entry.name)).split(sep).join('/'))
  .filter((file) => filters.length === 0 || filters.some((filter) => file.includes(filter.replace(/^\.\//, ''))))
  .sort()

if (files.length === 0) {
  console.error(filters.length === 0 ? 'There are no test files.' : `No test file has ${filters.join(' or ')} in its path.`)
  process.exit(1)
}

// Set when a test starts this script: the inner run would report to the outer one.
const { NODE_TEST_CONTEXT: _, ...env } = process.env
const child = spawn(process.execPath, [
  '--import', import.meta.resolve('tsx'),
  '--import', import.meta.resolve('./test-guard.mjs'),
  '--test',
  '--test-reporter=spec',
  `--test-timeout=${FILE_TIMEOUT_MS}`,
  `--test-concurrency=${Math.min(8, availableParallelism())}`,
  ...files
], { cwd: root, env: { ...env, LONGHAUL_TEST_FILE_TIMEOUT_MS: String(FILE_TIMEOUT_MS) }, stdio: 'inherit' })

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
setTimeout(() => {
  console.error(`The tests have not ended after ${RUN_TIMEOUT_MS} ms.`)
  child.kill('SIGTERM')
}, RUN_TIMEOUT_MS).unref()
child.on('error', (error) => {
  console.error(error.message)
  process.exit(1)
})
child.on('exit', (code, signal) => {
  if (signal !== null) console.error(`The test runner ended with ${signal}.`)
  process.exit(code ?? 1)
})
