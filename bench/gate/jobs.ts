// The jobs that the gate counts. Each is what an application does, without the socket: a handler gets a request and returns a response.
import { createTasks, defineTask, router, taskEndpoints, type TasksOptions } from 'longhaul'
import { bulkCreate } from 'longhaul/bulk'
import { memory } from 'longhaul/memory'
import { ndjsonDownload, ndjsonUpload } from 'longhaul/ndjson'
import { sqlite } from 'longhaul/sqlite'
import { bulkJob } from '../bulk/background.js'
import { openNewFile } from '../sqlite/open.js'
import { doWork, type Input } from '../tasks/work.js'
import { acceptOnPostgres } from './accept-postgres.js'
import { acceptOnRedis } from './accept-redis.js'
import { call, submit } from './accept.js'
import type { Job, PrepareJob } from './job.js'
import { BareRequest, headersOf } from './request.js'

/** Records of one body, and items of one bulk request. */
const PER_BODY = 1000

export const JOBS: Readonly<Record<string, PrepareJob>> = {
  'accept-and-run-8': () => acceptAndRun(8),
  'accept-and-run-64': () => acceptAndRun(64),
  'accept-and-run-sqlite': () => acceptAndRun(8, sqlite({ database: openNewFile(), synchronous: 'normal' })),
  poll,
  'ndjson-line-in': ndjsonIn,
  'ndjson-line-out': ndjsonOut,
  'bulk-item': bulkItem,
  'bulk-background-item': () => bulkJob('background'),
  'accept-redis': acceptOnRedis,
  'accept-postgres': acceptOnPostgres,
}

/** Accepts tasks, `waiting` at once, and waits until all of them have run. */
function acceptAndRun(waiting: number, storage: Pick<TasksOptions, 'engine' | 'store' | 'blobs'> = memory()): Job {
  let ran = 0
  let reached = (): void => undefined
  let wanted = Infinity
  const report = defineTask({
    name: 'report',
    run: async (input: Input) => {
      const result = await doWork(input)
      if (++ran === wanted) reached()
      return result
    },
  })
  const tasks = createTasks({ ...storage, definitions: [report] })
  const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
  const handler = router({ 'POST /reports': endpoints.submit(report) })
  return {
    run: async (count) => {
      for (let done = 0; done < count; done += waiting) {
        wanted = ran + waiting
        const allRan = new Promise<void>((resolve) => { reached = resolve })
        await Promise.all(Array.from({ length: waiting }, () => submit(handler)))
        await allRan
      }
      await turn()
    },
    close: () => tasks.close(),
  }
}

/** Reads the status of finished tasks. */
async function poll(): Promise<Job> {
  const report = defineTask({ name: 'report', run: (input: Input) => doWork(input) })
  const tasks = createTasks({ ...memory(), definitions: [report] })
  const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
  const handler = router({ 'POST /reports': endpoints.submit(report), 'GET|HEAD|DELETE /tasks/{id}': endpoints.status })
  const paths: string[] = []
  const headers = headersOf({})
  for (let n = 0; n < 100; n++) paths.push(String((await submit(handler)).headers['location']))
  return {
    run: async (count) => {
      for (let n = 0; n < count; n++) await call(handler, new BareRequest('GET', String(paths[n % paths.length]), headers), 200)
    },
    close: () => tasks.close(),
  }
}

/** Reads lines and passes them to a writer that does nothing. */
function ndjsonIn(): Job {
  let written = 0
  const upload = ndjsonUpload({ write: (records) => { written += records.length } })
  const body = Buffer.from(records().map((each) => `${JSON.stringify(each)}\n`).join(''))
  const headers = headersOf({ 'content-type': 'application/x-ndjson' }, body)
  return {
    run: async (count) => {
      const before = written
      for (let n = 0; n < count; n += PER_BODY) {
        await call(upload, new BareRequest('POST', '/upload', headers, body), 200)
      }
      if (written - before !== count) throw new Error(`${written - before} records were written`)
    },
  }
}

/** Writes records as lines. */
function ndjsonOut(): Job {
  const all = records()
  const handler = ndjsonDownload({ records: () => all })
  return {
    run: async (count) => {
      for (let n = 0; n < count; n += PER_BODY) {
        const { body } = await call(handler, new BareRequest('GET', '/records'), 200)
        let bytes = 0
        for await (const chunk of body as AsyncIterable<Uint8Array>) bytes += chunk.length
        if (bytes < PER_BODY) throw new Error(`${bytes} bytes were written`)
      }
    },
  }
}

/** Creates the users of a synchronous bulk request. */
function bulkItem(): Job {
  const users = bulkCreate({
    repository: { createMany: (items: readonly unknown[]) => items.map((_, n) => ({ id: String(n) })) },
  })
  const body = Buffer.from(JSON.stringify(records()))
  const headers = headersOf({ 'content-type': 'application/json' }, body)
  return {
    run: async (count) => {
      for (let n = 0; n < count; n += PER_BODY) {
        await call(users, new BareRequest('POST', '/users/bulk', headers, body), 201)
      }
    },
  }
}

function records(): object[] {
  return Array.from({ length: PER_BODY }, (_, n) => ({ id: n, name: `User ${n}`, email: `user${n}@example.org`, role: 'reader' }))
}

/** Waits until the work of this turn has ended. */
function turn(): Promise<void> {
  return new Promise((resolve) => { setImmediate(resolve) })
}
