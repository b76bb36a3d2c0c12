// examples/batch-api, as its clients use it: thousands of lines, a cancel with partial files, and a kill in between.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { checkFiles, ended, itemsOf, linesOf, start, submit } from '../kit/batch-example.js'
import { stopAfterwards } from '../kit/process.js'
import { eventually } from '../../kit/wait.js'

const folder = mkdtempSync(join(tmpdir(), 'longhaul-batch-'))
after(() => { rmSync(folder, { recursive: true, force: true }) })
stopAfterwards()

test('A batch of 5,000 lines has every line in exactly one of its two files', async () => {
  const server = start({ CALL_MS: '1' })
  const statusUrl = await submit(await server.url(), 5000)
  assert.equal((await ended(statusUrl)).status, 'completed')
  checkFiles(5000, await itemsOf(statusUrl, 'succeeded'), await itemsOf(statusUrl, 'failed'))
})

test('A cancelled batch keeps the lines that were answered', async () => {
  const server = start({ CALL_MS: '10' })
  const statusUrl = await submit(await server.url(), 5000)
  await eventually(async () => await linesOf(statusUrl) > 0)
  assert.equal((await fetch(statusUrl, { method: 'DELETE' })).ok, true)
  assert.equal((await ended(statusUrl)).status, 'cancelled')
  // The run that was stopped stores what it had.
  await eventually(async () => (await itemsOf(statusUrl, 'succeeded')).length > 0)
  const output = await itemsOf(statusUrl, 'succeeded')
  assert.ok(output.length < 4900, `${output.length}`)
  assert.equal(new Set(output.map(({ line }) => line)).size, output.length)
})

test('A batch continues after a kill, and has every line once', async () => {
  const env = { CALL_MS: '5', DATABASE: join(folder, 'data.db') }
  const first = start(env)
  const url = await first.url()
  const statusUrl = await submit(url, 3000)
  await eventually(async () => await linesOf(statusUrl) > 0)
  first.child.kill('SIGKILL')
  await first.exited
  const second = start(env, new URL(url).port)
  await second.url()
  assert.equal((await ended(statusUrl)).status, 'completed')
  checkFiles(3000, await itemsOf(statusUrl, 'succeeded'), await itemsOf(statusUrl, 'failed'))
})
