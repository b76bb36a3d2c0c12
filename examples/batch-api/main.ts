// npx tsx examples/batch-api/main.ts
// A batch API: a JSONL file of prompts goes up, a task answers all of them, and its output and error files are ready.
//   curl -X POST -H 'Prefer: respond-async' -H 'Content-Type: application/jsonl' --data-binary @prompts.jsonl \
//     http://127.0.0.1:3000/v1/batches
// Each line is { "custom_id": "a", "prompt": "…" }. DATABASE=data.db keeps batches in SQLite, so that they survive a kill.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createTasks, httpError, jsonSchema, router, taskEndpoints } from 'longhaul'
import { memory } from 'longhaul/memory'
import { ndjsonUpload, uploadItems, type WriteOutcome } from 'longhaul/ndjson'
import { toNode } from 'longhaul/node'
import { sqlite } from 'longhaul/sqlite'
import { resumableUpload } from 'longhaul/uploads'
import { openFile } from '../reference-server/sqlite-file.js'

const file = process.env['DATABASE']
const storage = file === undefined ? memory() : sqlite({ database: openFile(file) })
const { blobs, store } = storage

interface Prompt {
  readonly custom_id: string
  readonly prompt: string
}

const CONCURRENCY = 20
const callMs = Number(process.env['CALL_MS'] ?? 20)

/** Stands for a model, which takes its time and costs money. */
async function complete(prompt: string): Promise<string> {
  await new Promise((resolve) => { setTimeout(resolve, callMs) })
  if (prompt.includes('fail')) throw httpError('unprocessable', { message: 'The model rejects this prompt.' })
  return `Answer to: ${prompt}`
}

/** Answers the prompts of a batch, some at a time. After a cancel it begins no more. */
async function completeAll(prompts: readonly Prompt[], signal: AbortSignal): Promise<WriteOutcome[]> {
  const outcomes: WriteOutcome[] = []
  let next = 0
  const worker = async (): Promise<void> => {
    while (next < prompts.length) {
      const at = next++
      outcomes[at] = signal.aborted ? httpError('task_cancelled') : await outcomeOf(prompts[at] as Prompt)
    }
  }
  await Promise.all(Array.from({ length: CONCURRENCY }, worker))
  return outcomes
}

async function outcomeOf({ custom_id, prompt }: Prompt): Promise<WriteOutcome> {
  try {
    return { status: 200, id: custom_id, result: { text: await complete(prompt) } }
  } catch (error) {
    return error as Error
  }
}

const batch = ndjsonUpload<Prompt>({
  schema: jsonSchema<Prompt>({
    type: 'object', required: ['custom_id', 'prompt'],
    properties: { custom_id: { type: 'string', maxLength: 64 }, prompt: { type: 'string' } },
  }),
  key: ({ custom_id }) => custom_id,
  maxLines: 50_000,
  batchSize: 200, // after a crash, at most so many prompts are answered twice
  write: (prompts, { signal }) => completeAll(prompts, signal),
  background: { name: 'batch', blobs, keepItems: true, timeoutMs: 86_400_000 },
})

const tasks = createTasks({ ...storage, definitions: [batch.task] })
const endpoints = taskEndpoints(tasks, { statusPath: '/v1/batches/{id}', owner: 'anyone' })
const uploads = resumableUpload(batch.handler(endpoints), {
  blobs, store, owner: 'anyone', uploadPath: '/v1/uploads/{id}',
})

const handler = router({
  'POST|OPTIONS /v1/batches': uploads.create,
  'GET|HEAD|PATCH|DELETE|OPTIONS /v1/uploads/{id}': uploads.resource,
  'GET|HEAD|DELETE /v1/batches/{id}': endpoints.status,
  'GET|HEAD /v1/batches/{id}/items': uploadItems({ endpoints, blobs }), // ?only=succeeded, ?only=failed
})

const server = createServer(toNode(handler))
server.listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo
  console.log(`Batch API ready at http://127.0.0.1:${port}`)
})
