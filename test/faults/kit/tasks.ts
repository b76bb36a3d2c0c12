// Tasks over HTTP on each engine, with faults between the tasks and the engine.
import type { TestContext } from 'node:test'
import { callbacks, httpSender } from 'longhaul/callbacks'
import { createTasks, defineTask, jsonSchema, router, taskEndpoints, type Tasks } from 'longhaul'
import { toFetch } from 'longhaul/fetch'
import { withFaults, type NextFault } from '../../../conformance/engine/faults.js'
import type { TaskEngine } from '../../../src/engine/engine.js'
import { SECRET } from '../../http/kit/callbacks.js'
import { postgresUrl } from '../../servers/postgres-url.js'
import { redisUrl } from '../../servers/redis-server.js'
import { sqliteUrl } from '../../servers/sqlite.js'
import { openDatabase } from '../../servers/open-database.js'
import { keepAlive } from '../../kit/wait.js'

export interface Input {
  /** Milliseconds that a run takes. */
  readonly ms?: number
  /** Runs that fail, from the first one. */
  readonly fails?: number
  /** Milliseconds that a failed run takes to clean up. */
  readonly cleanUpMs?: number
  readonly callbackUrl?: string
  /** ISO 8601 time or duration. */
  readonly startAt?: string
}

/** One run, as it began. */
export interface Ran {
  readonly taskId: string
  readonly input: Input
  readonly checkpoint: number | undefined
}

/** One process with its endpoints. */
export interface Site {
  readonly tasks: Tasks
  /** Without faults. */
  readonly engine: TaskEngine
  readonly work: ReturnType<typeof makeWork>
  /** Decides about the faults of the calls of this process. */
  next: NextFault
  readonly ask: (method: string, path: string, headers?: Record<string, string>, body?: Input) => Promise<Response>
  /** Submits a task of a user, with an `Idempotency-Key` if there is one. */
  readonly submit: (input?: Input, key?: string, user?: string) => Promise<Response>
}

const DATABASES: Readonly<Record<string, () => Promise<string | undefined>>> = {
  'memory': async () => undefined, 'Redis': redisUrl, 'PostgreSQL': postgresUrl, 'SQLite': sqliteUrl,
}
export const databases = await Promise.all(
  Object.entries(DATABASES).map(async ([name, open]) => ({ name, url: await open() })),
)

function makeWork(ran: Ran[], maxPerOwner: number | undefined) {
  return defineTask({
    name: 'work', input: jsonSchema<Input>({ type: 'object' }), checkpoint: jsonSchema<number>({ type: 'number' }),
    ...maxPerOwner !== undefined && { maxPerOwner },
    run: async (input, { taskId = '', checkpoint: { value, save } }) => {
      ran.push({ taskId, input, checkpoint: value })
      await new Promise((resolve) => { setTimeout(resolve, input.ms ?? 0) })
      const runs = ran.filter((each) => each.taskId === taskId).length
      if (runs > (input.fails ?? 0)) return 'done'
      await save(runs)
      await new Promise((resolve) => { setTimeout(resolve, input.cleanUpMs ?? 0) })
      throw new Error(`It fails ${String(input.fails)} times`)
    },
  })
}

let namespaces = 0

/**
 * Opens a number of processes on one engine; one if it is in memory. They note their runs in `ran`.
 */
export async function openSites(
  t: TestContext,
  url: string | undefined,
  count: number,
  { maxPerOwner, concurrency = 4 }: { readonly maxPerOwner?: number; readonly concurrency?: number } = {},
): Promise<{ readonly sites: readonly [Site, ...Site[]]; readonly ran: Ran[] }> {
  // Timers of the library let a process end.
  keepAlive(t)
  const name = `tasks_${String(process.pid)}_${String(++namespaces)}`
  const ran: Ran[] = []
  const open = (): Site => {
    const {
      parts: { engine, store },
      close,
    } = openDatabase(url, { name, leaseMs: 2000 })
    const work = makeWork(ran, maxPerOwner)
    const next: NextFault = (call, of) => site.next(call, of)
    const tasks = createTasks({
      engine: withFaults(engine, next),
      store,
      definitions: [work],
      concurrency,
      onError: () => undefined,
      callbacks: callbacks({
        sender: httpSender({ allow: ['127.0.0.1'] }),
        secrets: () => [SECRET],
        backoff: { type: 'fixed', delayMs: 50 },
      }),
    })
    const { submit, status, retry, callback } = taskEndpoints(tasks, {
      statusPath: '/tasks/{id}',
      owner: ({ headers }) => String(headers['x-user'] ?? 'ann'),
      callback: (body) => body['callbackUrl'],
      startAt: (body) => body['startAt'],
    })
    const handle = toFetch(
      router({
        'POST /tasks': submit(work),
        'GET|DELETE /tasks/{id}': status,
        'POST /tasks/{id}/retry': retry,
        'POST /tasks/{id}/callback': callback,
      }),
      { onError: () => undefined },
    )
    const ask: Site['ask'] = (method, path, headers = {}, body = undefined) =>
      handle(
        new Request(`http://localhost${path}`, {
          method,
          headers: { ...headers, ...(body && { 'content-type': 'application/json' }) },
          ...(body && { body: JSON.stringify(body) }),
        }),
      )
    const site: Site = {
      tasks,
      engine,
      work,
      next: () => undefined,
      ask,
      submit: (input = {}, key = undefined, user = 'ann') =>
        ask(
          'POST',
          '/tasks',
          { 'prefer': 'respond-async', 'x-user': user, ...(key !== undefined && { 'idempotency-key': `"${key}"` }) },
          input,
        ),
    }
    t.after(async () => {
      site.next = () => undefined
      await tasks.close({ drainMs: 0 })
      await close()
    })
    return site
  }
  const sites: [Site, ...Site[]] = [open()]
  while (url !== undefined && sites.length < count) sites.push(open())
  return { sites, ran }
}

/** The id of a task, from the response that accepted it. */
export function idOf(response: Response): string {
  return (response.headers.get('location') ?? '').split('/').at(-1) ?? ''
}
