// A server whose memory main.ts asks for: tasks that wait, run or have ended, watchers, and uploads in a folder.
import { createServer } from 'node:http'
import { createTasks, defineTask, json, router, taskEndpoints, type Handler } from 'longhaul'
import { FolderBlobs } from 'longhaul/files'
import { memory } from 'longhaul/memory'
import { toNode } from 'longhaul/node'
import { resumableUpload } from 'longhaul/uploads'
import { settledHeap } from '../frame/heap.js'
import { subject } from '../frame/subject.js'

type Order = 'held' | 'watched' | { readonly requests: number } | { readonly submit: 'running' | 'waiting' | 'finished', readonly count: number }

const { engine, store } = memory({ maxUnfinished: 1_000_000, maxBytes: 2 ** 32, maxBytesPerOwner: 2 ** 32 })
const forever = (_: unknown, { signal }: { readonly signal: AbortSignal }): Promise<object> => (
  new Promise((resolve) => { signal.addEventListener('abort', () => { resolve({}) }) })
)
const running = defineTask({ name: 'running', pool: 'wide', run: forever })
const waiting = defineTask({ name: 'waiting', pool: 'closed', run: forever })
const finished = defineTask({ name: 'finished', pool: 'wide', run: () => ({ message: 'The report is ready.', rows: 1002 }) })
const tasks = createTasks({
  engine, store, definitions: [running, waiting, finished],
  pools: { wide: { concurrency: 100_000 }, closed: { concurrency: 1 } }, maxWaiters: 100_000, maxWaitersPerOwner: 100_000,
})
const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone', maxWaitSeconds: 600 })
const drain: Handler = async ({ body }) => {
  let bytes = 0
  for await (const chunk of body.stream()) bytes += chunk.byteLength
  return json(200, { bytes })
}
const uploads = resumableUpload(drain, {
  blobs: new FolderBlobs(process.argv[2] ?? ''), store, owner: ({ headers }) => String(headers['x-owner']), uploadPath: '/uploads/{id}',
})

/** Submits tasks of many owners, a thousand at once. Returns the id of the last one. */
async function submit(kind: 'running' | 'waiting' | 'finished', count: number): Promise<string> {
  const definition = { running, waiting, finished }[kind]
  let last = ''
  for (let at = 0; at < count; at += 1000) {
    const size = Math.min(1000, count - at)
    const handles = await Promise.all(Array.from({ length: size }, (_, n) => (
      tasks.ownedBy(`owner-${String((at + n) % 100)}`).submit(definition, { month: '2026-10' })
    )))
    last = handles.at(-1)?.taskId ?? last
    if (kind === 'finished') await Promise.all(handles.map(({ taskId }) => tasks.wait(taskId, { timeoutMs: 60_000 })))
  }
  return last
}

let requests = 0
let awaited = Infinity
function noteRequests(count: number): void {
  requests += count
  if (requests < awaited) return
  awaited = Infinity
  process.send?.({ requests })
}

process.on('message', (order: Order | 'cpu') => {
  if (order === 'cpu') return
  if (order === 'held') void settledHeap().then((heap) => process.send?.({ heap, rss: process.memoryUsage().rss }))
  // Anybody may see a task without owner.
  else if (order === 'watched') void tasks.submit(running, {}).then(({ taskId }) => process.send?.({ taskId }))
  else if ('requests' in order) {
    awaited = order.requests
    noteRequests(0)
  } else void submit(order.submit, order.count).then((taskId) => process.send?.({ taskId }))
})
const server = createServer({ requestTimeout: 0 }, toNode(router({
  'GET /tasks/{id}': endpoints.status, 'POST|OPTIONS /films': uploads.create,
  'GET|HEAD|PATCH|DELETE|OPTIONS /uploads/{id}': uploads.resource,
})))
server.on('request', () => { noteRequests(1) })
subject(server)
