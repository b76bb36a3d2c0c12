import assert from 'node:assert/strict'
import { channel } from 'node:diagnostics_channel'
import { EventEmitter, once } from 'node:events'
import { after, describe, it } from 'node:test'
import { Redis } from 'ioredis'
import { createTasks, defineTask, type TaskEvent } from 'longhaul'
import { memory } from 'longhaul/memory'
import { postgres } from 'longhaul/postgres'
import { redis } from 'longhaul/redis'
import pg from 'pg'
import { redisUrl } from '../../servers/redis-server.js'
import { databaseForFile } from '../kit/postgres.js'

const { pool, server, transact, traces, tasksOver } = await databaseForFile()
const connection = new Redis(await redisUrl(), { maxRetriesPerRequest: null })
after(() => { connection.disconnect() })
const namespace = `txn-${String(process.pid)}`

const runs = new EventEmitter()
const invoice = defineTask({
  name: 'invoice',
  run: ({ id }: { id: string }, { context, taskId }) => {
    runs.emit(id, { taskId, context, at: performance.now() })
    return { message: `sent ${id}` }
  },
})
const limited = defineTask({
  name: 'limited',
  maxPerOwner: 1,
  run: async (_: object, { signal }) => {
    await once(signal, 'abort')
  },
})
const definitions = [invoice, limited]

const tasks = tasksOver({ definitions })

describe('a submit in a transaction', () => {
  it('runs the task soon after the commit, and not before', async () => {
    let committedAt = Infinity
    const run = once(runs, 'soon')
    const task = await transact(async (client) => {
      const submitted = await tasks.submit(
        invoice,
        { id: 'soon' },
        { transaction: client, owner: 'ann', context: { locale: 'en' } },
      )
      await client.query('INSERT INTO invoices VALUES ($1, 1, $2)', ['soon', submitted.taskId])
      assert.equal(submitted.created, true)
      assert.equal(await submitted.get(), undefined)
      assert.equal(await submitted.cancel(), undefined)
      committedAt = performance.now()
      return submitted
    })
    const [{ taskId, context, at }] = await run as [{ taskId: string, context: unknown, at: number }]
    assert.equal(taskId, task.taskId)
    assert.deepEqual(context, { locale: 'en' })
    assert.ok(at > committedAt)
    assert.ok(at - committedAt < 1500, `it took ${String(at - committedAt)} ms`)
    const end = await task.wait({ timeoutMs: 60_000 })
    assert.deepEqual(end?.status === 'completed' && end.result, { message: 'sent soon' })
    assert.equal((await tasks.ownedBy('ann').get(task.taskId))?.status, 'completed')
  })

  it('runs a task with a large input', async () => {
    const id = `large-${'x'.repeat(300_000)}`
    const task = await transact((client) => tasks.submit(invoice, { id }, { transaction: client }))
    assert.equal((await task.wait({ timeoutMs: 60_000 }))?.status, 'completed')
  })

  it('leaves no trace after a rollback', async () => {
    await settled()
    const before = await traces()
    const lost = new Error('rolled back by the application')
    await assert.rejects(transact(async (client) => {
      await tasks.submit(invoice, { id: 'never' }, { transaction: client, owner: 'ann', delayMs: 1000 })
      await tasks.submit(limited, {}, { transaction: client, owner: 'bob' })
      await tasks.submit(invoice, { id: 'never' }, { transaction: client, id: 'an-id-of-my-own' })
      throw lost
    }), lost)
    assert.deepEqual(await traces(), before)
    assert.equal(await tasks.get('an-id-of-my-own'), undefined)
  })

  it('counts a delay from the submit', async () => {
    const run = once(runs, 'later')
    const submittedAt = performance.now()
    await transact(async (client) => {
      await tasks.submit(invoice, { id: 'later' }, { transaction: client, delayMs: 1200 })
      await client.query('SELECT pg_sleep(0.9)')
    })
    const [{ at }] = await run as [{ at: number }]
    const delayMs = at - submittedAt
    assert.ok(delayMs >= 1200 && delayMs < 2050, `it began after ${String(delayMs)} ms`)
  })

  it('does not run a task that is cancelled right after the commit', async () => {
    let hasRun = false
    runs.once('cancelled', () => { hasRun = true })
    const task = await transact((client) => tasks.submit(invoice, { id: 'cancelled' }, { transaction: client }))
    const end = await task.cancel()
    // The run may have begun between the commit and the cancel.
    if (end?.status === 'cancelled') assert.ok(!hasRun || end.startedAt !== undefined)
    else assert.equal((await task.get())?.status, 'completed')
  })

  it('is found by another process if its own process has closed before the commit', async () => {
    const run = once(runs, 'found')
    const { engine, store } = postgres({ pool })
    // A process that shuts down between its submit and its commit.
    const submitter = createTasks({ engine, store, definitions, worker: false })
    await transact(async (client) => {
      await submitter.submit(invoice, { id: 'found' }, { transaction: client })
      await submitter.close()
    })
    await run
    await store.close()
  })

  it('accepts an id of the application once, in one transaction and in the next', async () => {
    const run = once(runs, 'own-id')
    await transact(async (client) => {
      const first = await tasks.submit(invoice, { id: 'own-id' }, { transaction: client, id: 'own-1' })
      const second = await tasks.submit(invoice, { id: 'own-id' }, { transaction: client, id: 'own-1' })
      assert.deepEqual([first.created, second.created], [true, false])
      await assert.rejects(
        tasks.submit(limited, {}, { transaction: client, id: 'own-1' }), { code: 'conflict', status: 409 },
      )
    })
    await run
    const again = await transact((client) =>
      tasks.submit(invoice, { id: 'own-id' }, { transaction: client, id: 'own-1' }),
    )
    assert.equal(again.created, false)
    assert.equal((await again.wait({ timeoutMs: 60_000 }))?.status, 'completed')
  })

  it('gets a 503 after a moment for an id of another open transaction, and both transactions stay usable', async () => {
    const run = once(runs, 'contended')
    await transact(async (one) => {
      await tasks.submit(invoice, { id: 'contended' }, { transaction: one, id: 'contended' })
      await transact(async (two) => {
        await assert.rejects(tasks.submit(invoice, { id: 'contended' }, { transaction: two, id: 'contended' }), {
          name: 'StoreUnavailableError',
        })
        await two.query('SELECT 1')
      })
    })
    await run
  })

  it('counts the tasks of open transactions for maxPerOwner', async () => {
    const first = await transact(async (one) => {
      const task = await tasks.submit(limited, {}, { transaction: one, owner: 'carl' })
      await transact(async (two) => {
        await assert.rejects(tasks.submit(limited, {}, { transaction: two, owner: 'carl' }), {
          name: 'StoreUnavailableError',
        })
        await tasks.submit(limited, {}, { transaction: two, owner: 'dora' })
        await two.query('ROLLBACK')
      })
      await assert.rejects(tasks.submit(limited, {}, { transaction: one, owner: 'carl' }), { code: 'too_many_tasks' })
      return task
    })
    await assert.rejects(tasks.submit(limited, {}, { owner: 'carl' }), { code: 'too_many_tasks' })
    await first.cancel()
    const next = await transact((client) => tasks.submit(limited, {}, { transaction: client, owner: 'carl' }))
    await next.cancel()
  })

  it('rejects with the code of the database for a serialization failure, and succeeds when retried', async () => {
    const run = once(runs, 'serializable')
    const attempt = (interfere: () => Promise<unknown>) => transact(async (client) => {
      await client.query('SELECT count(*) FROM invoices')
      await interfere()
      return tasks.submit(invoice, { id: 'serializable' }, { transaction: client, id: 'serializable' })
    }, 'BEGIN ISOLATION LEVEL REPEATABLE READ')
    const interfere = () => tasks.submit(invoice, { id: 'serializable' }, { id: 'serializable' })
    await assert.rejects(attempt(interfere), { code: '40001' })
    await run
    assert.equal((await attempt(async () => undefined)).created, false)
  })

  it('disappears with a savepoint that is rolled back, and the transaction keeps its other tasks', async () => {
    const run = once(runs, 'kept')
    const [gone, kept] = await transact(async (client) => {
      await client.query('SAVEPOINT s')
      const first = await tasks.submit(invoice, { id: 'gone' }, { transaction: client })
      await client.query('ROLLBACK TO SAVEPOINT s')
      return [first, await tasks.submit(invoice, { id: 'kept' }, { transaction: client })]
    })
    await run
    assert.equal(await gone?.get(), undefined)
    assert.equal((await kept?.wait({ timeoutMs: 60_000 }))?.status, 'completed')
  })

  it('publishes on the diagnostics channel after the commit', async () => {
    const events: TaskEvent[] = []
    // The last event of an earlier task may come late.
    const of = (id: string) => events.filter(({ taskId }) => taskId === id)
    const note = (event: unknown) => { events.push(event as TaskEvent) }
    channel('longhaul:task').subscribe(note)
    const run = once(runs, 'told')
    const [gone, task] = await transact(async (client) => {
      const rolledBack = await tasks.submit(invoice, { id: 'rolled back' }, { transaction: client })
      await client.query('ROLLBACK')
      await client.query('BEGIN')
      const submitted = await tasks.submit(invoice, { id: 'told' }, { transaction: client })
      assert.deepEqual([...of(rolledBack.taskId), ...of(submitted.taskId)], [])
      return [rolledBack, submitted] as const
    })
    await run
    await task.wait({ timeoutMs: 60_000 })
    channel('longhaul:task').unsubscribe(note)
    assert.deepEqual(of(gone.taskId), [])
    assert.equal(of(task.taskId).filter(({ event }) => event === 'accepted').length, 1)
  })

  it('rejects a client without a transaction, a transaction of another database, and any other value', async () => {
    await settled()
    const before = await traces()
    await assert.rejects(tasks.submit(invoice, { id: 'x' }, { transaction: pool }), {
      name: 'TypeError',
      message: /not open/,
    })
    for (const none of [{}, 'BEGIN', null, { query: 1 }]) {
      await assert.rejects(tasks.submit(invoice, { id: 'x' }, { transaction: none as never }), {
        name: 'TypeError',
        message: /query\(text, values\)/,
      })
    }
    await server.query('CREATE DATABASE foreign_one')
    const url = new URL(server.url)
    url.pathname = '/foreign_one'
    const foreign = new pg.Client({ connectionString: url.href })
    await foreign.connect()
    await foreign.query('BEGIN')
    await assert.rejects(tasks.submit(invoice, { id: 'x' }, { transaction: foreign }), {
      name: 'TypeError',
      message: /another database/,
    })
    await foreign.query('SELECT 1')
    await foreign.end()
    assert.deepEqual(await traces(), before)
  })

  it('rejects on an engine without transactions, and writes nothing', async () => {
    const inMemory = memory()
    const local = createTasks({ ...inMemory, definitions })
    const onRedis = redis({ client: connection, namespace })
    const remote = createTasks({ ...onRedis, definitions, worker: false })
    await transact(async (client) => {
      for (const each of [local, remote]) {
        await assert.rejects(
          each.submit(invoice, { id: 'x' }, { transaction: client, id: 'refused' }),
          { name: 'TypeError', message: /needs the engine of longhaul\/postgres/ },
        )
        assert.equal(await each.get('refused'), undefined)
      }
      await client.query('SELECT 1')
    })
    await local.close()
    await remote.close()
    await onRedis.store.close()
  })
})

/** Resolves when nothing is written any more. */
async function settled(): Promise<void> {
  let before = JSON.stringify(await traces())
  for (;;) {
    await new Promise((resolve) => { setTimeout(resolve, 100) })
    const now = JSON.stringify(await traces())
    if (now === before) return
    before = now
  }
}
