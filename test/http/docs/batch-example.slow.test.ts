// examples/batch-api at its full size, on SQLite: 50,000 lines, 20 calls at the same time, a kill and a cancel.
// It prints the times and the memory that docs/guide/batch-api.md states.
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test, type TestContext } from 'node:test'
import { eventually, pause } from '../../kit/wait.js'
import { checkFiles, ended, itemsOf, linesOf, start, submit } from '../kit/batch-example.js'
import { stopAfterwards, type ServerProcess } from '../kit/process.js'

const LINES = 50_000
const folder = mkdtempSync(join(tmpdir(), 'longhaul-batch-'))
after(() => { rmSync(folder, { recursive: true, force: true }) })
stopAfterwards()

/** Waits until a batch has saved at least so many lines. */
async function reached(statusUrl: string, lines: number): Promise<void> {
  while (await linesOf(statusUrl) < lines) await pause(200)
}

function tell(t: TestContext, what: string, since: number, { child: { pid } }: ServerProcess): void {
  const [, peak = ''] = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
  const seconds = Math.round((performance.now() - since) / 1000)
  t.diagnostic(`${what}: ${seconds} s, at most ${Math.round(Number(peak) / 1024)} MiB of memory`)
}

test('A batch of 50,000 lines continues after a kill, and has every line once', async (t) => {
  const env = { DATABASE: join(folder, 'killed.db') }
  const first = start(env)
  const url = await first.url()
  const statusUrl = await submit(url, LINES)
  const began = performance.now()
  await reached(statusUrl, 20_000)
  tell(t, '20,000 lines', began, first)
  first.child.kill('SIGKILL')
  await first.exited
  const second = start(env, new URL(url).port)
  await second.url()
  assert.equal((await ended(statusUrl)).status, 'completed')
  tell(t, `${LINES} lines with a kill`, began, second)
  checkFiles(LINES, await itemsOf(statusUrl, 'succeeded'), await itemsOf(statusUrl, 'failed'))
})

test('A batch of 50,000 lines that is cancelled has the outcomes of the lines before the cancel, each once', async (t) => {
  const server = start({ DATABASE: join(folder, 'cancelled.db') })
  const statusUrl = await submit(await server.url(), LINES)
  const began = performance.now()
  await reached(statusUrl, 10_000)
  assert.equal((await fetch(statusUrl, { method: 'DELETE' })).ok, true)
  assert.equal((await ended(statusUrl)).status, 'cancelled')
  await eventually(async () => (await itemsOf(statusUrl, 'succeeded')).length >= 9800)
  tell(t, 'a cancel after 10,000 lines', began, server)
  const lines = [...await itemsOf(statusUrl, 'succeeded'), ...await itemsOf(statusUrl, 'failed')].map(({ line }) => line)
  assert.equal(new Set(lines).size, lines.length, 'no line is in both files, or twice')
  assert.deepEqual(lines.sort((one, other) => one - other), lines.map((_, at) => at + 1), 'no line is missing')
  assert.ok(lines.length < LINES)
})
