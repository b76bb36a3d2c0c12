// Runs the tests of several files in this process, one file after the other: each is a suite with the name of the file.
import { rmSync } from 'node:fs'
import { describe, mock, test } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { builtFile } from './test-build.mjs'
import { guard } from './test-guard.mjs'
import { releaseAfterFiles } from './test-releases.mjs'

/** Time in milliseconds that a file has to close what it opened, after its last test. */
const CLOSING_MS = 3000

/** Kinds of open resources that belong to a file. The process itself has pipes and a thread. */
const KINDS = new Set(['TCPServerWrap', 'TCPSocketWrap', 'Timeout', 'Immediate', 'ProcessWrap', 'FSEventWrap', 'StatWatcher', 'MessagePort', 'UDPWrap'])

/**
 * Runs files, and removes the program if all goes well: what is left tells the runner which processes did not end by themselves.
 *
 * @param {string} program The URL of the program of this process.
 * @param {readonly string[]} files Paths such as `test/unit/x.test.ts`.
 */
export async function runFiles(program, files) {
  process.setSourceMapsEnabled(true)
  releaseAfterFiles()
  const left = new Set(files)
  process.on('exit', (code) => {
    if (code === 0 && left.size === 0) rmSync(new URL(program), { force: true })
    else if (left.size > 0) console.error(`The process has ended before ${[...left].join(', ')}`)
  })
  for (const file of files) {
    if (files.length > 1) await runBefore(file)
    else await run(file)
    left.delete(file)
  }
}

/** Begins with a file. Its module runs later. */
async function run(file) {
  await guard(file)
  void describe(file, async () => { await import(pathToFileURL(builtFile(file)).href) })
}

/** Runs a file before others of this process. Resolves when it has ended, and fails if it leaves something to them. */
async function runBefore(file) {
  const open = openNow()
  await run(file)
  // The first suite of a process adds listeners to it.
  const state = processState()
  // The tests of this process run one after the other, so this one runs when the file has ended.
  await test(`${file} leaves nothing behind`, async () => {
    mock.reset()
    await closed(file, open)
    const changed = Object.entries(processState()).filter(([name, value]) => value !== state[name])
    if (changed.length > 0) throw new Error(`${file} has changed ${changed.map(([name]) => name).join(', ')} of the process`)
  })
}

/** Resolves when nothing is open but what was before. */
async function closed(file, before) {
  const until = performance.now() + CLOSING_MS
  for (;;) {
    const more = Object.entries(openNow()).filter(([kind, count]) => count > (before[kind] ?? 0))
    if (more.length === 0) return
    if (performance.now() > until) {
      throw new Error(`${file} has ended, but this is still open: ${more.map(([kind, count]) => `${count} ${kind}`).join(', ')}`)
    }
    await wait(5)
  }
}

function openNow() {
  const counts = {}
  for (const kind of process.getActiveResourcesInfo()) if (KINDS.has(kind)) counts[kind] = (counts[kind] ?? 0) + 1
  return counts
}

/** Values that a file can change for those after it. */
function processState() {
  const { NODE_TEST_CONTEXT: _, ...env } = process.env
  const listeners = ['uncaughtException', 'unhandledRejection', 'warning', 'SIGTERM', 'SIGINT', 'exit']
  return {
    'the environment': JSON.stringify(env),
    'the folder': process.cwd(),
    ...Object.fromEntries(listeners.map((name) => [`the listeners for ${name}`, process.listenerCount(name)])),
    'fetch': globalThis.fetch,
    'setTimeout': globalThis.setTimeout,
    'Date': globalThis.Date,
  }
}
