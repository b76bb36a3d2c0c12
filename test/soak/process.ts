// A web process or a worker under load: node process.ts <url> <web | worker | both> <folder> <port> <seed>,
// with the url of Redis, of PostgreSQL, of a file of SQLite (sqlite:path), or memory:.
import { appendFileSync, readdirSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { bulkCreate } from 'longhaul/bulk'
import { readJson } from 'longhaul/http'
import {
  createTasks, jobFormat, json, jsonSchema, router, taskEndpoints, type HttpRequest, type HttpResponse,
} from 'longhaul'
import { ndjsonUpload } from 'longhaul/ndjson'
import { callbacks, httpSender } from 'longhaul/callbacks'
import { attach } from 'longhaul/node'
import { openParts } from './parts.js'
import { recorded } from './recorded-engine.js'
import { SECRET, type Vitals, type WorkInput } from './terms.js'
import { pools, works } from './works.js'

const [, , url = '', role = '', folder = '', port = '', seed = ''] = process.argv
const fileOf = (name: string): string => join(folder, `${name}-${String(process.pid)}.log`)
const [history, records] = [fileOf('history'), fileOf('records')]
const delay = monitorEventLoopDelay({ resolution: 10 })
delay.enable()

const { engine, store, close } = openParts(url, Number(seed))
const tasks = createTasks({
  engine: recorded(engine, (event) => {
    appendFileSync(history, `${JSON.stringify(event)}\n`)
  }),
  store,
  definitions: Object.values(works),
  pools,
  worker: role !== 'web',
  concurrency: 20,
  retentionMs: 4 * 3_600_000,
  onError: () => undefined,
  callbacks: callbacks({
    sender: httpSender({ allow: ['127.0.0.1'] }),
    secrets: () => [SECRET],
    attempts: 30,
    backoff: { type: 'fixed', delayMs: 300 },
  }),
})

const item = jsonSchema<{ id: number }>({ type: 'object', required: ['id'], properties: { id: { type: 'integer' } } })
const keep = (some: readonly { id: number }[]): { id: number }[] => {
  appendFileSync(records, some.map(({ id }) => `${String(id)}\n`).join(''))
  return some.map(({ id }) => ({ id }))
}

function vitals(): HttpResponse {
  globalThis.gc?.()
  const { rss, heapUsed } = process.memoryUsage()
  const resources: Record<string, number> = {}
  for (const each of process.getActiveResourcesInfo()) resources[each] = (resources[each] ?? 0) + 1
  const seen: Vitals = {
    rss, heapUsed, descriptors: readdirSync('/proc/self/fd').length, resources,
    delayMs: { p50: delay.percentile(50) / 1e6, p99: delay.percentile(99) / 1e6, max: delay.max / 1e6 },
  }
  return json(200, seen)
}

const callback = ({ callbackUrl }: Record<string, unknown>): unknown => callbackUrl
const owner = ({ headers }: HttpRequest<unknown>): string => String(headers['x-owner'])
const task = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner, callback })
const job = taskEndpoints(tasks, { statusPath: '/jobs/{id}', owner, format: jobFormat, callback })

interface UniqueRequest extends WorkInput {
  readonly unique: string
  readonly ifExists: 'return' | 'replace'
  readonly delayMs: number
}

/** Submits a task with a business key. */
async function submitUnique(request: HttpRequest<unknown>): Promise<HttpResponse> {
  const body = await readJson(request, { maxBodyBytes: 1000 }) as UniqueRequest
  const { unique, ifExists, delayMs, ...work } = body
  const { taskId } = await tasks.submit(works.unique, work, {
    owner: owner(request), unique, ifExists, delayMs,
  })
  return json(202, { taskId }, { location: `/tasks/${taskId}` })
}

/** Pauses a pool, or ends the pause. Responds once that is done. */
async function setPaused(
  { params }: HttpRequest<unknown>, isPaused: boolean,
): Promise<HttpResponse> {
  const { pool = '' } = params
  await (isPaused ? tasks.pause(pool) : tasks.resume(pool))
  return json(200, {})
}

const server = createServer()
attach(
  server,
  router({
    'POST /tasks': task.submit(works.work),
    'GET|HEAD|DELETE /tasks/{id}': task.status,
    'POST /jobs': job.submit(works.work, { respond: 'always' }),
    'GET|HEAD|DELETE /jobs/{id}': job.status,
    'POST /limited': task.submit(works.limited),
    'POST /fair': task.submit(works.fair),
    'POST /unique': submitUnique,
    'PUT /pauses/{pool}': (request) => setPaused(request, true),
    'DELETE /pauses/{pool}': (request) => setPaused(request, false),
    'GET /now': async () => json(200, { now: await engine.now() }),
    'POST /upload': ndjsonUpload<{ id: number }>({
      schema: item,
      write: (some) => {
        keep(some)
      },
    }),
    'POST /bulk': bulkCreate<{ id: number }, { id: number }>({
      repository: { createMany: (some) => Promise.resolve(keep(some)) },
      schema: item,
    }),
    'GET /vitals': vitals,
  }),
)
server.listen(Number(port), '127.0.0.1', () => { console.log(`ready at http://127.0.0.1:${port}`) })

process.once('SIGTERM', () => {
  server.close()
  server.closeIdleConnections()
  void tasks.close({ drainMs: 1000 }).then(async () => {
    await store.close()
    await close()
    server.closeAllConnections()
  })
})
