// Clients of examples/batch-api, and what they check.
import assert from 'node:assert/strict'
import { createClient } from 'longhaul/client'
import type { UploadItem } from 'longhaul/ndjson'
import { ServerProcess } from './process.js'
import { program } from '../../servers/program.js'

export const start = (env: Record<string, string>, port = '0'): ServerProcess => (
  new ServerProcess(process.execPath, program('examples/batch-api/main.ts'), { PORT: port, ...env })
)

/** A file in which one of 50 prompts fails. */
const prompts = (count: number): string => Array.from({ length: count }, (_, at) => (
  JSON.stringify({ custom_id: `p${at}`, prompt: at % 50 === 49 ? 'fail' : `question ${at}` })
)).join('\n')

export async function submit(url: string, count: number): Promise<string> {
  const blob = new Blob([prompts(count)], { type: 'application/jsonl' })
  const upload = createClient({ baseUrl: url }).uploadFile('/v1/batches', blob, { background: true })
  return (await upload.task()).statusUrl ?? assert.fail('no task')
}

export async function itemsOf(statusUrl: string, only: string): Promise<UploadItem[]> {
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

/** Returns the number of lines that a batch has saved. */
export async function linesOf(statusUrl: string): Promise<number> {
  const { progress } = await statusOf(statusUrl)
  return Number(/Read (\d+)/.exec(progress?.message ?? '')?.[1] ?? 0)
}

export async function ended(statusUrl: string): Promise<Status> {
  for (;;) {
    const status = await statusOf(statusUrl, true)
    if (status.status !== 'processing') return status
  }
}

export function checkFiles(count: number, output: UploadItem[], errors: UploadItem[]): void {
  const lines = [...output, ...errors].map(({ line }) => line).sort((one, other) => one - other)
  assert.deepEqual(lines, Array.from({ length: count }, (_, at) => at + 1), 'each line is in one file, once')
  assert.equal(errors.length, Math.floor(count / 50))
  for (const { line, id, result } of output) {
    assert.deepEqual([id, result], [`p${line - 1}`, { text: `Answer to: question ${line - 1}` }])
  }
}
