// A queue on PostgreSQL whose server is killed, frozen, restarted, or behind a bad network.
import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import pg from 'pg'
import { migrate, PostgresQueue, type PostgresQueueOptions } from 'longhaul/postgres'
import type { EnqueueOutcome } from 'longhaul/queues'
import { eventually } from '../../../src/conformance/waiting.js'
import { stopAfterwards } from '../../http/kit/process.js'
import { pgBouncerForFile } from '../../servers/pgbouncer.js'
import { postgresForFile, startPostgres } from '../../servers/postgres-server.js'
import { TcpProxy } from '../../servers/tcp-proxy.js'
import { said, startWorker } from './queue-processes.js'

stopAfterwards()
const server = await postgresForFile()
const pooler = await pgBouncerForFile(server)
// The migrations have no deadline. Within the first call they would have that of the call.
const migrating = new pg.Pool({ connectionString: server.url })
await migrate(migrating)
await migrating.end()

/** Time until everything works again, in milliseconds. */
const HEALED_MS = 10_000

interface Opened {
  readonly queue: PostgresQueue
  readonly ran: string[]
  readonly errors: Error[]
  work(): void
  add(id: string, delayMs?: number): Promise<EnqueueOutcome>
}

function open(t: TestContext, url: string, name: string, options: Partial<PostgresQueueOptions> = {}): Opened {
  const pool = new pg.Pool({ connectionString: url, connectionTimeoutMillis: 2000 })
  const errors: Error[] = []
  const queue = new PostgresQueue({
    pool, name, lockDurationMs: 2000, stalledIntervalMs: 1000, onError: (error) => { errors.push(error) }, ...options,
  })
  t.after(async () => {
    await queue.close({ drainMs: 0 })
    await pool.end()
  })
  const ran: string[] = []
  return {
    queue, ran, errors,
    work: () => { queue.process(async ({ taskId }) => { ran.push(taskId) }, { concurrency: 2, onDead: () => undefined }) },
    add: (id, delayMs = 0) => queue.enqueue({ id, taskId: id, name: 'work', input: 1 }, { delayMs }),
  }
}

test('a worker that is killed with kill -9 in the middle of a run leaves its job to another one', async (t) => {
  const { queue, add } = open(t, server.url, 'killed')
  const worker = await startWorker(server.url, 'killed')
  await queue.enqueue({ id: 'long', taskId: 'long', name: 'work', input: 3000 })
  await said(worker, 'began long')
  worker.child.kill('SIGKILL')
  await worker.exited
  assert.equal(await queue.has('long'), true)
  const other = await startWorker(server.url, 'killed')
  await add('next')
  await said(other, 'ended long')
  await said(other, 'ended next')
  await eventually(async () => !await queue.has('long'), HEALED_MS, 'it is done')
})

describe('a queue', { concurrency: true }, () => {
  test('works again after the server was killed, and runs what it had accepted', async (t) => {
    const own = await startPostgres({ fsync: true })
    t.after(() => own.stop())
    const producer = open(t, own.url, 'restart')
    const worker = open(t, own.url, 'restart')
    worker.work()
    await producer.add('before')
    await eventually(() => worker.ran.includes('before'), HEALED_MS, 'it works')
    await producer.add('delayed', 3000)
    await own.kill()
    await assert.rejects(producer.add('lost'))
    await assert.rejects(producer.queue.has('before'))
    await new Promise((resolve) => { setTimeout(resolve, 2000) })
    await own.run()
    await eventually(async () => await producer.add('after').catch(() => undefined) === 'accepted', HEALED_MS, 'it takes jobs')
    await eventually(() => ['delayed', 'after'].every((id) => worker.ran.includes(id)), HEALED_MS, 'the worker works')
    assert.ok(worker.errors.length < 60, `${String(worker.errors.length)} errors in some seconds: the worker does not pause`)
  })

  test('that is created while there is no server works when there is one', async (t) => {
    const own = await startPostgres()
    t.after(() => own.stop())
    await own.shutDown()
    const { ran, work, add } = open(t, own.url, 'early')
    work()
    await assert.rejects(add('first'))
    await new Promise((resolve) => { setTimeout(resolve, 1000) })
    await own.run()
    await eventually(async () => await add('second').catch(() => undefined) === 'accepted', HEALED_MS, 'it takes jobs')
    await eventually(() => ran.includes('second'), HEALED_MS, 'the worker works')
  })

  test('answers within its time limit while the server is frozen, and works again after it', async (t) => {
    const own = await startPostgres()
    t.after(() => own.stop())
    const { queue, ran, work, add } = open(t, own.url, 'frozen')
    work()
    await add('before')
    await eventually(() => ran.includes('before'), HEALED_MS, 'it works')
    own.freeze()
    for (const call of [() => add('while'), () => queue.remove('none'), () => queue.has('none')]) {
      const began = performance.now()
      await assert.rejects(call)
      assert.ok(performance.now() - began < 3000, `it took ${String(performance.now() - began)} ms`)
    }
    own.thaw()
    await eventually(async () => await add('after').catch(() => undefined) === 'accepted', HEALED_MS, 'it takes jobs')
    await eventually(() => ran.includes('after'), HEALED_MS, 'the worker works')
  })

  for (const network of ['swallows everything for some seconds', 'has forgotten its connections']) {
    test(`works again behind a network that ${network}`, async (t) => {
      const proxy = await TcpProxy.to(server.port)
      t.after(() => { proxy.close() })
      const { ran, work, add } = open(t, server.urlAt(proxy.port), network.slice(0, 8))
      work()
      await add('before')
      await eventually(() => ran.includes('before'), HEALED_MS, 'it works')
      if (network.startsWith('swallows')) {
        proxy.swallow()
        await assert.rejects(add('while'))
        await new Promise((resolve) => { setTimeout(resolve, 3000) })
        proxy.heal()
      } else proxy.forget()
      await eventually(async () => await add('after').catch(() => undefined) === 'accepted', HEALED_MS, 'it takes jobs')
      await eventually(() => ran.includes('after'), HEALED_MS, 'the worker works')
    })
  }

  test('runs a job within some seconds though the connection for notices is half-open', async (t) => {
    const proxy = await TcpProxy.to(server.port)
    t.after(() => { proxy.close() })
    const producer = open(t, server.url, 'deaf')
    const { ran, work } = open(t, server.urlAt(proxy.port), 'deaf')
    work()
    await producer.add('before')
    await eventually(() => ran.includes('before'), HEALED_MS, 'it works')
    proxy.forget()
    await producer.add('after')
    await eventually(() => ran.includes('after'), HEALED_MS, 'it runs')
  })

  test('rejects in time while the host has all connections of the pool', async (t) => {
    const pool = new pg.Pool({ connectionString: server.url, max: 1 })
    const queue = new PostgresQueue({ pool, name: 'busy-pool', timeoutMs: 300 })
    t.after(async () => {
      await queue.close()
      await pool.end()
    })
    await eventually(async () => await queue.has('before').catch(() => true) === false, HEALED_MS, 'it answers')
    const client = await pool.connect()
    await assert.rejects(queue.enqueue({ id: 'while', taskId: 'while', name: 'work', input: 1 }))
    client.release()
    await eventually(async () => await queue.has('before').catch(() => true) === false, HEALED_MS, 'it answers again')
  })

  test('behind a pooler in transaction mode runs a new job within seconds, without notices', async (t) => {
    const producer = open(t, pooler.url, 'pooled')
    const { ran, work, errors } = open(t, pooler.url, 'pooled')
    work()
    for (const id of ['a', 'b', 'c']) {
      await producer.add(id)
      const began = performance.now()
      await eventually(() => ran.includes(id), HEALED_MS, 'it runs')
      if (id !== 'a') assert.ok(performance.now() - began < 2500, `${String(performance.now() - began)} ms`)
    }
    assert.deepEqual(errors, [])
  })
})
