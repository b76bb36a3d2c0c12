// Jobs that end in one turn are completed by one statement, which takes the next ones. The rest is for BullMQ's own function.
import assert from 'node:assert/strict'
import { after, describe, test, type TestContext } from 'node:test'
import { PostgresQueue } from 'longhaul/postgres'
import pg from 'pg'
import { eventually } from '../../../../src/conformance/waiting.js'
import { postgresForFile } from '../../../servers/postgres-server.js'

const server = await postgresForFile()
const pool = new pg.Pool({ connectionString: server.url, max: 30 })
const statements: string[] = []
after(() => pool.end())
pool.on('connect', (client) => {
  const query = client.query.bind(client) as (...values: unknown[]) => unknown
  client.query = ((...values: unknown[]) => {
    if (typeof values[0] === 'string') statements.push(values[0])
    return query(...values)
  }) as typeof client.query
})

/** A queue and its runs. Each run waits until the test ends it. */
class Site {
  readonly queue: PostgresQueue
  readonly started: string[] = []
  readonly errors: Error[] = []
  private readonly ends = new Map<string, () => void>()

  constructor(t: TestContext, name: string, private readonly concurrency: number) {
    this.queue = new PostgresQueue({ pool, name, timeoutMs: 5000, onError: (error) => { this.errors.push(error) } })
    t.after(() => this.queue.close({ drainMs: 0 }))
  }

  get running(): string[] {
    return [...this.ends.keys()]
  }

  work(): void {
    this.queue.process(({ taskId }) => new Promise<void>((resolve) => {
      this.started.push(taskId)
      this.ends.set(taskId, resolve)
    }), { concurrency: this.concurrency, onDead: () => undefined })
  }

  async add(...ids: string[]): Promise<void> {
    await Promise.all(ids.map((id) => this.queue.enqueue({ id, taskId: id, name: 'work', input: 1 })))
  }

  /** Ends the runs of some jobs in one turn. */
  end(...ids: string[]): void {
    for (const id of ids) {
      this.ends.get(id)?.()
      this.ends.delete(id)
    }
  }

  async runs(...ids: string[]): Promise<void> {
    await eventually(() => ids.every((id) => this.ends.has(id)), 10_000, `${ids.join(', ')} run`)
  }

  async isGone(...ids: string[]): Promise<void> {
    await eventually(async () => !(await Promise.all(ids.map((id) => this.queue.has(id)))).includes(true), 10_000, 'they are done')
  }
}

const ids = (prefix: string, count: number): string[] => (
  Array.from({ length: count }, (_, at) => `${prefix}${String(at)}`)
)

describe('jobs that end in one turn', () => {
  test('are completed by one statement, which takes as many others, in their order', async (t) => {
    const site = new Site(t, 'together', 10)
    const first = ids('first-', 10)
    const next = ids('next-', 15)
    await site.add(...first)
    await site.add(...next)
    site.work()
    await site.runs(...first)
    statements.length = 0
    site.end(...first)
    await site.runs(...next.slice(0, 10))
    const completing = statements.filter((text) => /WITH ended|move_to_completed/.test(text))
    assert.equal(completing.length, 1, completing.join('\n'))
    await site.isGone(...first)
    site.end(...next)
    await site.runs(...next.slice(10))
    site.end(...next)
    await site.isGone(...next)
    assert.deepEqual(site.started, [...first, ...next])
    assert.deepEqual(site.errors, [])
  })

  test('do not wait for one that a transaction has locked', async (t) => {
    const site = new Site(t, 'locked', 3)
    await site.add('locked', 'free', 'next')
    site.work()
    await site.runs('locked', 'free', 'next')
    const client = await pool.connect()
    try {
      await client.query('BEGIN')
      await client.query('SELECT 1 FROM longhaul_bullmq.job WHERE id = \'locked\' FOR UPDATE')
      site.end('locked', 'free')
      await site.isGone('free')
      assert.equal(await site.queue.has('locked'), true)
    } finally {
      await client.query('ROLLBACK')
      client.release()
    }
    await site.isGone('locked')
    site.end('next')
    assert.deepEqual(site.errors, [])
  })

  test('one that another worker has taken is left alone, and the worker continues', async (t) => {
    const site = new Site(t, 'taken', 2)
    await site.add('taken', 'mine')
    site.work()
    await site.runs('taken', 'mine')
    await server.query('UPDATE longhaul_bullmq.job SET lock_token = \'another\' WHERE id = \'taken\'')
    site.end('taken', 'mine')
    await site.isGone('mine')
    await eventually(() => site.errors.length > 0, 10_000, 'the lost lock is reported')
    assert.equal(await site.queue.has('taken'), true)
    await site.add('later')
    await site.runs('later')
    site.end('later')
    await site.isGone('later')
  })

  test('two runs of one job, whose lock the worker has lost, take different jobs', async (t) => {
    const queue = new PostgresQueue({ pool, name: 'lost', timeoutMs: 5000, onError: () => undefined })
    t.after(() => queue.close({ drainMs: 0 }))
    const started: string[] = []
    const ends: (() => void)[] = []
    queue.process(({ taskId }) => new Promise<void>((resolve) => {
      started.push(taskId)
      ends.push(resolve)
    }), { concurrency: 2, onDead: () => undefined })
    const add = (id: string) => queue.enqueue({ id, taskId: id, name: 'work', input: 1 })
    const runs = (count: number) => eventually(() => started.length >= count, 20_000, `${String(count)} runs`)
    await add('lost')
    await runs(1)
    // As another worker does with a job whose lock has expired.
    await server.query('UPDATE longhaul_bullmq.job SET state = \'waiting\', lock_token = NULL WHERE id = \'lost\'')
    await server.query('SELECT pg_notify(\'bullmq_jobs\', \'lost\')')
    await runs(2)
    assert.deepEqual(started, ['lost', 'lost'])
    await add('one')
    await add('two')
    for (const end of ends.splice(0)) end()
    await runs(4)
    assert.deepEqual(started.slice(2).sort(), ['one', 'two'])
    for (const end of ends) end()
    await eventually(async () => !await queue.has('one') && !await queue.has('two'), 10_000, 'they are done')
  })

  test('take no job of a paused queue, until it is resumed', async (t) => {
    const site = new Site(t, 'paused', 2)
    await site.add('one', 'two', 'three')
    site.work()
    await site.runs('one', 'two')
    await site.queue.bull.pause()
    site.end('one', 'two')
    await site.isGone('one', 'two')
    assert.deepEqual(site.running, [])
    await site.queue.bull.resume()
    await site.runs('three')
    site.end('three')
    await site.isGone('three')
  })

  test('do not exceed a limit that was set for all workers', async (t) => {
    const site = new Site(t, 'limited', 5)
    await site.add(...ids('job-', 6))
    await site.queue.bull.setGlobalConcurrency(2)
    site.work()
    await site.runs('job-0', 'job-1')
    for (let at = 0; at < 6; at += 2) {
      const pair = [`job-${String(at)}`, `job-${String(at + 1)}`]
      await site.runs(...pair)
      assert.deepEqual(site.running.sort(), pair)
      site.end(...pair)
    }
    await site.isGone('job-5')
  })

  test('take a delayed job that has become due, before later ones', async (t) => {
    const site = new Site(t, 'due', 1)
    await site.queue.enqueue({ id: 'due', taskId: 'due', name: 'work', input: 1 }, { delayMs: 60_000 })
    await site.add('first', 'second', 'third')
    site.work()
    await site.runs('first')
    await server.query('UPDATE longhaul_bullmq.job SET process_at_ms = 1 WHERE id = \'due\'')
    site.end('first')
    await site.runs('due')
    site.end('due')
    await site.runs('second')
    site.end('second')
    await site.runs('third')
    site.end('third')
    await site.isGone('third')
  })
})
