// One of several processes that share a Redis. Its watchers read the event stream of one task without a socket.
import { Redis } from 'ioredis'
import { createTasks, defineTask, taskEndpoints, type TaskContext } from 'longhaul'
import { redis } from 'longhaul/redis'
import { inject } from 'longhaul/testing'
import { settledHeap } from '../frame/heap.js'

type Order = { readonly path: string, readonly count: number } | 'submit' | 'tick' | 'next' | 'held'

const now = (): number => performance.timeOrigin + performance.now()
const client = new Redis(process.argv[2] ?? '', { maxRetriesPerRequest: null })
let context: TaskContext | undefined
let ticks = 0
let watchers = 0
let heard = 0
let told: (() => void) | undefined

const forever = defineTask({
  name: 'forever',
  timeoutMs: 3_600_000,
  run: (_: unknown, given: TaskContext) => {
    context = given
    return new Promise<object>((resolve) => { given.signal.addEventListener('abort', () => { resolve({}) }) })
  },
})
const tasks = createTasks({
  ...redis({ client }), definitions: [forever], worker: process.argv[3] === 'worker', maxWaiters: 100_000, maxWaitersPerOwner: 100_000,
})
const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })

/** Resolves when the watcher has the first event, which shows the state of the task. */
async function watch(path: string): Promise<void> {
  const answer = await inject(endpoints.status, { path, headers: { accept: 'text/event-stream' } })
  if (answer.status !== 200) throw new Error(`a watcher got ${answer.status}`)
  const events = answer.stream()
  await events.next()
  void (async () => {
    for await (const _ of events) if (++heard === watchers) told?.()
  })()
}

async function open(path: string, count: number): Promise<void> {
  for (; watchers < count; watchers += 200) await Promise.all(Array.from({ length: 200 }, () => watch(path)))
}

process.on('message', (order: Order) => {
  if (order === 'submit') {
    void tasks.submit(forever, {}).then(({ taskId }) => process.send?.({ path: `/tasks/${taskId}` }))
  } else if (order === 'tick') {
    const at = now()
    context?.progress(++ticks)
    process.send?.({ at })
  } else if (order === 'held') void settledHeap().then((heap) => process.send?.({ heap }))
  else if (order === 'next') {
    heard = 0
    const before = process.cpuUsage()
    told = () => {
      const { user, system } = process.cpuUsage(before)
      process.send?.({ last: now(), cpu: user + system })
    }
    process.send?.({ ready: true })
  } else void open(order.path, order.count).then(() => process.send?.({ open: watchers }))
})
process.on('disconnect', () => process.exit())
process.send?.({ ready: true })
