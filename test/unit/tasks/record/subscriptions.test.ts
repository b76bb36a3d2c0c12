import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { after, describe, test, type TestContext } from 'node:test'
import { MemoryStore } from '../../../../adapters/memory/store.js'
import type { StoredTask } from '../../../../src/engine/task.js'
import { defineTask } from '../../../../src/tasks/definition/define.js'
import { eventStream } from '../../../../src/tasks/http/event-stream.js'
import { Subscriptions } from '../../../../src/tasks/record/subscriptions.js'
import { taskFormat, encodedBodies } from '../../../../src/tasks/http/formats.js'
import { bench, Spy, SpyStore } from '../../kit/tasks.js'
import { coreOf } from '../../../../src/tasks/tasks.js'
import { deferred, keepAlive, within } from '../../../kit/wait.js'

// Timers of the library let a process end.
keepAlive({ after })

const HOUR = 3_600_000
const turn = () => new Promise(setImmediate)
/** A signal that nobody aborts. */
const never = () => new AbortController().signal

/** A task with this version, as text. */
function recordText(
  version: number,
  { status = 'processing', owner, more }: { status?: StoredTask['status']; owner?: string; more?: string } = {},
): string {
  const task: Partial<StoredTask> = {
    id: 'a',
    name: 'n',
    status,
    version,
    attempt: 1,
    createdAt: 1000,
    expiresAt: Date.now() + HOUR,
    details: { progress: { done: version, message: more } },
    ...(owner !== undefined && { owner: JSON.parse(owner) as string }),
  }
  return JSON.stringify(task)
}

/** A store with a task `a`, and a function that writes its next version. */
async function setUp(t: TestContext) {
  const inner = new MemoryStore()
  t.after(() => inner.close())
  const spy = new Spy()
  const store = new SpyStore(inner, spy)
  const made = await inner.create('task:a', recordText(1), { ttlMs: HOUR })
  let revision = made.created ? made.revision : ''
  const write = async (text: string) => {
    const now = await inner.replace('task:a', text, revision, {})
    if (now.replaced) revision = now.revision
  }
  const seen: StoredTask[] = []
  const subscriptions = new Subscriptions({
    async read(id) {
      const entry = await store.get(`task:${id}`)
      const task = entry && JSON.parse(entry.value) as StoredTask
      if (task) seen.push(task)
      return task
    },
    watch: (id, listener) => store.watch(`task:${id}`, listener),
  })
  return { inner, spy, store, write, seen, subscriptions }
}

describe('Subscriptions', () => {
  test('wakes at most 200 subscribers in a turn of the event loop', async (t) => {
    const { subscriptions, write } = await setUp(t)
    const inTurns = [0]
    const waiting: Promise<void>[] = []
    const versions = new Set<number | undefined>()
    for (let n = 0; n < 1000; n++) {
      const subscriber = await subscriptions.subscribe('a')
      t.after(() => { subscriber.close() })
      await subscriber.next(60_000)
      waiting.push(subscriber.next(60_000).then((task) => {
        versions.add(task?.version)
        inTurns.push((inTurns.pop() ?? 0) + 1)
      }))
    }
    let isOver = false
    const all = Promise.all(waiting).then(() => { isOver = true })
    await write(recordText(2))
    while (!isOver) {
      await turn()
      inTurns.push(0)
    }
    await all
    assert.equal(Math.max(...inTurns), 200)
    assert.deepEqual(versions, new Set([2]))
  })

  test('shows the last of several changes to a subscriber that a later turn wakes', async (t) => {
    const { subscriptions, write } = await setUp(t)
    const last = async (): Promise<void> => {
      const subscriber = await subscriptions.subscribe('a')
      t.after(() => { subscriber.close() })
      while ((await subscriber.next(60_000))?.version !== 9);
    }
    const all = Promise.all(Array.from({ length: 500 }, last))
    await turn()
    for (let version = 2; version <= 9; version++) {
      await write(recordText(version))
      await turn()
    }
    await within(all)
  })

  test('wakes a subscriber at a change, at its time limit, its abort and its close, and leaves nothing open', async (t) => {
    const { inner, subscriptions, write } = await setUp(t)
    const real = setInterval
    // It does not wake by reading again at intervals.
    t.mock.method(globalThis, 'setInterval', (work: () => void) => real(work, 600_000))
    const subscriber = await subscriptions.subscribe('a')
    const controller = new AbortController()
    assert.equal((await subscriber.next(60_000, controller.signal))?.version, 1, 'the first is at once')
    const woken = subscriber.next(60_000, controller.signal)
    await write(recordText(2))
    assert.equal((await within(woken))?.version, 2)
    assert.equal((await within(subscriber.next(10, controller.signal)))?.version, 2)
    assert.equal(getEventListeners(controller.signal, 'abort').length, 0)
    const aborted = subscriber.next(60_000, controller.signal)
    controller.abort()
    await within(aborted)
    const closed = subscriber.next(60_000, new AbortController().signal)
    subscriber.close()
    subscriber.close()
    await within(closed)
    assert.deepEqual([inner.usage().watches, subscriptions.size], [0, 0])
  })

  test('shares one watch, one read of each change and one snapshot among a hundred subscribers of a task', async (t) => {
    const { spy, subscriptions, write, seen } = await setUp(t)
    const subscribers = await Promise.all(Array.from({ length: 100 }, () => subscriptions.subscribe('a')))
    await Promise.all(subscribers.map((subscriber) => subscriber.next(60_000, never())))
    assert.equal(spy.calls.filter((call) => call.startsWith('watch')).length, 1)
    const reads = () => spy.calls.filter((call) => call.startsWith('get')).length
    assert.ok(reads() <= 2, `${String(reads())} reads for those who came together`)
    const before = reads()
    const next = subscribers.map((subscriber) => subscriber.next(60_000, never()))
    await write(recordText(2))
    const tasks = await within(Promise.all(next))
    assert.equal(reads() - before, 1)
    assert.equal(new Set(tasks).size, 1)
    assert.equal(tasks[0]?.version, 2)
    assert.equal(seen.filter(({ version }) => version === 2).length, 1)
    for (const subscriber of subscribers) subscriber.close()
    assert.equal(subscriptions.size, 0)
  })

  test('reads the newest record for a later subscriber, even during another read', async (t) => {
    const { inner, subscriptions, write, store } = await setUp(t)
    const gate = deferred()
    let held = true
    t.mock.method(store, 'get', async (key: string) => {
      const entry = await inner.get(key)
      if (held) await gate.promise
      return entry
    })
    const first = (await subscriptions.subscribe('a')).next(60_000, never())
    await turn()
    t.mock.method(inner, 'watch', () => () => undefined)
    await write(recordText(2))
    const second = (await subscriptions.subscribe('a')).next(60_000, never())
    await turn()
    held = false
    gate.resolve()
    await within(first)
    assert.equal((await within(second))?.version, 2)
  })

  test('reads again without a notice if a notice is lost', async (t) => {
    const { inner, subscriptions, write, store } = await setUp(t)
    const real = setInterval
    const every: number[] = []
    t.mock.method(globalThis, 'setInterval', (work: () => void, ms: number) => { every.push(ms); return real(work, 5) })
    t.mock.method(store, 'watch', async () => () => undefined)
    const subscriber = await subscriptions.subscribe('a')
    await subscriber.next(60_000, never())
    const next = subscriber.next(60_000, never())
    await write(recordText(2))
    assert.equal((await within(next))?.version, 2)
    assert.deepEqual(every, [2000])
    subscriber.close()
    assert.equal(inner.usage().watches, 0)
  })

  test('rejects all subscribers if a store fails, and the next one retries', async (t) => {
    const { spy, subscriptions, write } = await setUp(t)
    spy.fault = (call) => (call.startsWith('watch') ? 'before' : undefined)
    await assert.rejects(Promise.all([subscriptions.subscribe('a'), subscriptions.subscribe('a')]), /did not happen/)
    assert.equal(subscriptions.size, 0)
    spy.fault = () => undefined
    const subscribers = await Promise.all([subscriptions.subscribe('a'), subscriptions.subscribe('a')])
    for (const subscriber of subscribers) await subscriber.next(60_000, never())
    spy.fault = (call) => (call.startsWith('get') ? 'before' : undefined)
    const next = subscribers.map((subscriber) => assert.rejects(subscriber.next(60_000, never()), /did not happen/))
    await write(recordText(2))
    await within(Promise.all(next))
    spy.fault = () => undefined
    assert.equal((await subscribers[0]?.now())?.version, 2)
    for (const subscriber of subscribers) subscriber.close()
  })

  test('notifies subscribers of a deleted task', async (t) => {
    const { inner, subscriptions } = await setUp(t)
    const subscriber = await subscriptions.subscribe('a')
    await subscriber.next(60_000, never())
    const next = subscriber.next(60_000, never())
    await inner.delete('task:a')
    assert.equal(await within(next), undefined)
    subscriber.close()
  })
})

describe('the event streams of a task', () => {
  const place = () => ({ signal: never(), release: () => undefined })

  /** What a stream yields, one piece for each call. */
  function open(
    { subscriptions }: Awaited<ReturnType<typeof setUp>>,
    task: StoredTask,
    format = encodedBodies(taskFormat),
  ) {
    const events = eventStream(subscriptions, task, place(), {
      eventOf: (now) => format.event(now, '/a'),
      lastEventId: undefined,
    })[Symbol.asyncIterator]()
    return { events, next: async () => (await within(events.next())).value as string | Uint8Array | undefined }
  }

  const task = { id: 'a', owner: undefined } as StoredTask

  test('share the bytes of a version, and send large ones piece by piece', async (t) => {
    const made = await setUp(t)
    const format = encodedBodies(taskFormat)
    const streams = [open(made, task, format), open(made, task, format)] as const
    for (const { next } of streams) assert.equal(String(await next()), 'retry: 2000\n\n')
    for (const { next } of streams) assert.match(String(await next()), /"done":1,?/)
    await made.write(recordText(2, { more: 'x'.repeat(200_000) }))
    const texts = await Promise.all(streams.map(async ({ next }) => {
      const pieces: Uint8Array[] = []
      for (let size = 0; size < 200_000; size += pieces.at(-1)?.byteLength ?? 0) pieces.push(await next() as Uint8Array)
      return pieces
    }))
    assert.equal(texts[0]?.[0]?.buffer, texts[1]?.[0]?.buffer)
    for (const pieces of texts) {
      assert.ok(pieces.every(({ byteLength }) => byteLength <= 65_536))
      assert.match(
        Buffer.concat(pieces).toString(),
        /^id: 1000-2\ndata: \{"taskId":"a",[^x]+"message":"x{200000}"[^x]+\}\n\n$/,
      )
    }
    for (const { events } of streams) await events.return?.()
    assert.equal(made.subscriptions.size, 0)
  })

  test('skip versions that have changed again while a reader is slow', async (t) => {
    const made = await setUp(t)
    const { next, events } = open(made, task)
    await next()
    assert.match(String(await next()), /"done":1,?/)
    for (let version = 2; version <= 50; version++) await made.write(recordText(version))
    await turn()
    assert.match(String(await next()), /"done":50/)
    await events.return?.()
  })

  test('end when the id becomes the task of another owner', async (t) => {
    const made = await setUp(t)
    const { next } = open(made, task)
    await next()
    await next()
    await made.write(recordText(2, { owner: '"eve"' }))
    assert.equal(await next(), undefined)
    assert.equal(made.subscriptions.size, 0)
  })
})

test('tasks.wait for many callers reads each change once', async (t) => {
  const gate = deferred()
  const work = defineTask({ name: 'work', run: () => gate.promise })
  const { tasks, spy, close } = bench({ definitions: [work] })
  t.after(close)
  const { taskId: id } = await tasks.submit(work, 1)
  const waits = Array.from({ length: 50 }, () => tasks.wait(id, { timeoutMs: 60_000 }))
  while (coreOf(tasks).subscriptions.size === 0) await turn()
  for (let n = 0; n < 10; n++) await turn()
  spy.calls.length = 0
  gate.resolve()
  for (const task of await within(Promise.all(waits))) assert.equal(task?.status, 'completed')
  assert.ok(spy.calls.filter((call) => call.startsWith('get')).length <= 3, spy.calls.join())
})
