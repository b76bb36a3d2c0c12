// A web process or a worker under load: node process.ts <url of redis or postgres, or memory:> <web | worker | both> <folder> <port> <seed>.
import { appendFileSync, readdirSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { bulkCreate } from 'longhaul/bulk'
import {
  createTasks, defineTask, httpError, jobFormat, json, jsonSchema, router, taskEndpoints,
  type HttpRequest, type HttpResponse,
} from 'longhaul'
import { ndjsonUpload } from 'longhaul/ndjson'
import { callbacks, httpSender } from 'longhaul/callbacks'
import { attach } from 'longhaul/node'
import { openParts } from './parts.js'
import { ATTEMPTS, SECRET, type Vitals, type WorkInput } from './terms.js'

const [, , url = '', role = '', folder = '', port = '', seed = ''] = process.argv
const [runs, records] = ['runs', 'records'].map((name) => join(folder, `${name}-${String(process.pid)}.log`)) as [string, string]
const delay = monitorEventLoopDelay({ resolution: 10 })
delay.enable()

/** Says of each run that it begins, before it does anything, in a file that outlives the process. */
const work = defineTask({
  name: 'work', attempts: ATTEMPTS, backoff: { type: 'fixed', delayMs: 50 }, input: jsonSchema<WorkInput>({ type: 'object', required: ['n', 'ms', 'mode'] }),
  run: async ({ n, ms, mode }, { taskId, attempt, signal, progress }) => {
    if (taskId !== undefined) appendFileSync(runs, `${taskId}\n`)
    for (let step = 1; step <= 4; step++) {
      await sleep(ms / 4, undefined, { signal })
      progress(step, 4)
    }
    if (mode === 'fails') throw httpError('unprocessable', { message: 'It fails, as it was told to.' })
    if (mode === 'flaky' && attempt === 1) throw new Error('It fails the first time')
    return { message: 'done', n }
  },
})

const { engine, store, close } = openParts(url, Number(seed))
const tasks = createTasks({
  engine, store, definitions: [work], worker: role !== 'web', concurrency: 20, retentionMs: 4 * 3_600_000, onError: () => undefined,
  callbacks: callbacks({
    sender: httpSender({ allow: ['127.0.0.1'] }), secrets: () => [SECRET], attempts: 30, backoff: { type: 'fixed', delayMs: 300 },
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
const server = createServer()
attach(server, router({
  'POST /tasks': task.submit(work), 'GET|HEAD|DELETE /tasks/{id}': task.status,
  'POST /jobs': job.submit(work, { respond: 'always' }), 'GET|HEAD|DELETE /jobs/{id}': job.status,
  'POST /upload': ndjsonUpload<{ id: number }>({ schema: item, write: (some) => { keep(some) } }),
  'POST /bulk': bulkCreate<{ id: number }, { id: number }>({ repository: { createMany: (some) => Promise.resolve(keep(some)) }, schema: item }),
  'GET /vitals': vitals,
}))
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
