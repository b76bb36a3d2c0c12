// Loaded into each process of the tests. A test file that does not end fails, and the error names it: even if its event loop is blocked.
// (The runner's own timeout guards single tests; from Node 24 on it no longer ends a file.)
import { readFileSync } from 'node:fs'
import { Worker } from 'node:worker_threads'

const limitMs = Number(process.env.LONGHAUL_TEST_FILE_TIMEOUT_MS)
/** Time in milliseconds that a file has, beyond its limit, to say itself what keeps it alive. */
const BLOCKED_MS = 5000

const name = new Uint8Array(new SharedArrayBuffer(512))
const end = new BigInt64Array(new SharedArrayBuffer(8))
let timer
let watchdog

/** Watches the test file that begins now, instead of the one before. */
export async function guard(file) {
  await sameValuesInEveryRun(file)
  if (!(limitMs > 0)) return
  name.fill(0)
  new TextEncoder().encodeInto(file, name)
  Atomics.store(end, 0, BigInt(Date.now() + limitMs + BLOCKED_MS))
  clearTimeout(timer)
  timer = setTimeout(() => {
    console.error(`${file} has not ended after ${limitMs} ms. Still open: ${process.getActiveResourcesInfo().join(', ')}`)
    process.exit(1)
  }, limitMs).unref()
  watchdog ??= watch()
}

/** Property tests use the same values in every run, so that results are reproducible. `npm run fuzz` uses new ones. */
async function sameValuesInEveryRun(file) {
  if (!readFileSync(file, 'utf8').includes('\'fast-check\'')) return
  const { default: fc } = await import('fast-check')
  fc.configureGlobal({ seed: Number(process.env.LONGHAUL_SEED ?? 20_261_121) })
}

function watch() {
  const worker = new Worker(`
    const { workerData: { name, end } } = require('node:worker_threads')
    const { writeSync } = require('node:fs')
    setInterval(() => {
      if (Date.now() < Atomics.load(end, 0)) return
      writeSync(2, new TextDecoder().decode(name.slice(0, name.indexOf(0))) + ' blocks the event loop, and is killed\\n')
      process.kill(process.pid, 'SIGKILL')
    }, 1000)
  `, { eval: true, execArgv: [], workerData: { name, end } })
  worker.unref()
  return worker
}
