// examples/batch-api, as its clients use it: thousands of lines, a cancel with partial files, and a kill in between.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { createClient } from 'longhaul/client'
import type { UploadItem } from 'longhaul/ndjson'
import { ServerProcess, stopAfterwards } from '../kit/process.js'
import { program } from '../../servers/program.js'
import { eventually } from '../../kit/wait.js'

const folder = mkdtempSync(join(tmpdir(), 'longhaul-batch-'))
after(() => { rmSync(folder, { recursive: true, force: true }) })
stopAfterwards()

const start = (env: Record<string, string>, port = '0'): ServerProcess => (
  new ServerProcess(process.execPath, program('examples/batch-api/main.ts'), { PORT: port, ...env })
)

/** A file in which one of 50 prompts fails. */
const prompts = (count: number): string => Array.from({ length: count }, (_, at) => (
  JSON.stringify({ custom_id: `p${at}`, prompt: at % 50 === 49 ? 'fail' : `question ${at}` })
)).join('\n')

async function submit(url: string, count: number): Promise<string> {
  const blob = new Blob([prompts(count)], { type: 'application/jsonl' })
  const upload = createClient({ baseUrl: url }).uploadFile('/v1/batches', blob, { background: true })
  return (await upload.task()).statusUrl ?? assert.fail('no task')
}

async function itemsOf(statusUrl: string, only: string): Promise<UploadItem[]> {
  const response = await fetch(`${statusUrl}/items?only=${only}`)
  if (response.status === 404) return []
  const text = await response.text()
  assert.equal(response.status, 200, text)
  return text.split('\n').filter((line) => line !== '').map((line) => JSON.parse(line) as UploadItem)
}

interface Status { readonly status: string, readonly progress?: { readonly done: number, readonly message?: string } }

async function statusOf(statusUrl: string, waits = false): Promise<Status> {
  const response = await fetch(statusUrl, { headers: waits ? { prefer: 'wait=20' } : {} })
  return await response.json() as Status
}

async function hasBegun(statusUrl: string): Promise<boolean> {
  const { progress } = await statusOf(statusUrl)
  return /Read [1-9]/.test(progress?.message ?? '')
}

async function ended(statusUrl: string): Promise<Status> {
  for (;;) {
    const status = await statusOf(statusUrl, true)
    if (status.status !== 'processing') return status
  }
}

function checkFiles(count: number, output: UploadItem[], errors: UploadItem[]): void {
  const lines = [...output, ...errors].map(({ line }) => line).sort((one, other) => one - other)
  assert.deepEqual(lines, Array.from({ length: count }, (_, at) => at + 1), 'each line is in one file, once')
  assert.equal(errors.length, Math.floor(count / 50))
  for (const { line, id, result } of output) {
    assert.deepEqual([id, result], [`p${line - 1}`, { text: `Answer to: question ${line - 1}` }])
  }
}

test('A batch of 5,000 lines has every line in exactly one of its two files', async () => {
  const server = start({ CALL_MS: '1' })
  const statusUrl = await submit(await server.url(), 5000)
  assert.equal((await ended(statusUrl)).status, 'completed')
  checkFiles(5000, await itemsOf(statusUrl, 'succeeded'), await itemsOf(statusUrl, 'failed'))
})

test('A cancelled batch keeps the lines that were answered', async () => {
  const server = start({ CALL_MS: '10' })
  const statusUrl = await submit(await server.url(), 5000)
  await eventually(() => hasBegun(statusUrl))
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
  await eventually(() => hasBegun(statusUrl))
  first.child.kill('SIGKILL')
  await first.exited
  const second = start(env, new URL(url).port)
  await second.url()
  assert.equal((await ended(statusUrl)).status, 'completed')
  checkFiles(3000, await itemsOf(statusUrl, 'succeeded'), await itemsOf(statusUrl, 'failed'))
})
