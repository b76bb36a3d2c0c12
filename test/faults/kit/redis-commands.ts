// Commands and scripts of Redis for one task with an owner, a limit and a key: its submission, its begin and its end.
import { Redis } from 'ioredis'
import { createTasks, defineTask, router, taskEndpoints } from 'longhaul'
import { toFetch } from 'longhaul/fetch'
import { redis } from 'longhaul/redis'

/** One way in which tasks come and run. */
export interface Scene {
  readonly name: string
  readonly tasks: number
  /** Places of the worker. */
  readonly concurrency: number
  /** `true`: all tasks wait before the worker begins. Otherwise each task ends before the next one comes. */
  readonly isBusy: boolean
  /** Number of owners, who take turns. */
  readonly owners: number
}

export const SCENES: readonly Scene[] = [
  { name: 'one after the other', tasks: 300, concurrency: 10, isBusy: false, owners: 10 },
  { name: 'busy, 1 place', tasks: 1000, concurrency: 1, isBusy: true, owners: 10 },
  { name: 'busy, 10 places', tasks: 2000, concurrency: 10, isBusy: true, owners: 10 },
  { name: 'busy, 10 places, each task of another owner', tasks: 2000, concurrency: 10, isBusy: true, owners: 2000 },
]

/** Numbers for one task. */
export interface Commands {
  readonly commands: number
  readonly scripts: number
}

let spaces = 0

/** Counts commands, those within scripts included, on a server that does nothing else. */
export async function commandsOf(url: string, { tasks: count, concurrency, isBusy, owners }: Scene): Promise<Commands> {
  const clients = [new Redis(url), new Redis(url), new Redis(url)] as const
  const [webClient, workerClient, admin] = clients
  const namespace = `commands-${String(++spaces)}`
  let ended = 0
  let onEnd = (): void => undefined
  const report = defineTask({
    name: 'report', maxPerOwner: 100_000, run: async () => {
      // Longer than a script, as work is.
      await new Promise((resolve) => { setTimeout(resolve, 2) })
      if (++ended === count || !isBusy) setTimeout(onEnd, 10)
      return { message: 'The report is ready.' }
    },
  })
  const parts = redis({ client: webClient, namespace })
  const web = createTasks({ ...parts, definitions: [report], worker: false })
  const endpoints = taskEndpoints(web, {
    statusPath: '/tasks/{id}',
    owner: ({ headers }: { headers: Readonly<Record<string, unknown>> }) => String(headers['x-owner']),
  })
  const handle = toFetch(router({ 'POST /reports': endpoints.submit(report) }))
  const submit = async (n: number): Promise<void> => {
    const response = await handle(
      new Request('http://127.0.0.1/reports', {
        method: 'POST',
        body: '{"month":"2026-10"}',
        headers: {
          'content-type': 'application/json',
          'prefer': 'respond-async',
          'idempotency-key': `key-${String(n)}`,
          'x-owner': `owner-${String(n % owners)}`,
        },
      }),
    )
    if (response?.status !== 202) throw new Error(`${String(response?.status)}: ${String(await response?.text())}`)
  }
  const work = () => createTasks({ ...redis({ client: workerClient, namespace }), definitions: [report], concurrency })
  let worker = isBusy ? undefined : work()
  await new Promise((resolve) => { setTimeout(resolve, 100) })
  await admin.config('RESETSTAT')
  if (isBusy) {
    for (let n = 0; n < count; n += 50)
      await Promise.all(Array.from({ length: Math.min(50, count - n) }, (_, each) => submit(n + each)))
    const end = new Promise<void>((resolve) => { onEnd = resolve })
    worker = work()
    await end
  } else {
    for (let n = 0; n < count; n++) {
      const end = new Promise<void>((resolve) => { onEnd = resolve })
      await submit(n)
      await end
    }
  }
  const stats = await admin.info('commandstats')
  await Promise.all([web.close(), worker?.close()])
  await parts.store.close()
  for (const client of clients) client.disconnect()
  const calls = [...stats.matchAll(/cmdstat_([\w|-]+):calls=(\d+)/g)]
    .map(([, name = '', calls]) => [name, Number(calls)] as const)
    .filter(([name]) => !/^(config|info|client|hello|select)/.test(name))
  const sum = (all: typeof calls): number => all.reduce((total, [, each]) => total + each, 0) / count
  return { commands: sum(calls), scripts: sum(calls.filter(([name]) => name.startsWith('eval'))) }
}
