// Processes whose clocks are wrong, by minutes and by hours: time belongs to the store.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test, type TestContext } from 'node:test'
import { Redis } from 'ioredis'
import { createTasks, defineTask, type Tasks } from 'longhaul'
import { MemoryQueue } from 'longhaul/memory'
import { RedisStore } from 'longhaul/redis'
import { pause } from '../../../src/conformance/waiting.js'
import { Client } from '../../http/kit/reference.js'
import { ServerProcess, startProcess, stopAfterwards } from '../../http/kit/process.js'
import { skewedBy, skewedByFile } from '../../servers/faketime.js'
import { postgresUrl } from '../../servers/postgres-url.js'
import { redisForFile } from '../../servers/redis-server.js'

stopAfterwards()
const redis = await redisForFile()
const folder = mkdtempSync(join(tmpdir(), 'longhaul-clock-'))
after(() => { rmSync(folder, { recursive: true, force: true }) })

const HOUR = 3600

function start(file: string, given: string | readonly string[], env: Record<string, string>): ServerProcess {
  return new ServerProcess(process.execPath, ['--import', 'tsx', join(import.meta.dirname, file), ...[given].flat()], env)
}

/** What a process says in its first line. */
async function said<T>(child: ServerProcess): Promise<T> {
  await until(child, '\n')
  return JSON.parse(child.out) as T
}

/** Resolves once the process has said so. */
async function until(child: ServerProcess, what: string): Promise<void> {
  while (!child.out.includes(what)) {
    await Promise.race([once(child.child.stdout ?? child.child, 'data'), child.exited.then(() => { throw new Error(child.err) })])
  }
}

function tasksHere(t: TestContext): Tasks {
  const client = new Redis(redis.url)
  const store = new RedisStore({ client })
  const tasks = createTasks({ store, queue: new MemoryQueue(), definitions: [defineTask({ name: 'none', run: () => 1 })], leaseMs: 2000 })
  t.after(async () => {
    await tasks.close({ drainMs: 0 })
    await store.close()
    client.disconnect()
  })
  return tasks
}

test('a rate limit of 5 lets exactly 5 of 200 requests pass, whatever clocks the processes have', async () => {
  const env = { REDIS_URL: `${redis.url}/1`, WORKER: 'off', RATE_LIMIT: '5', AUTH_TOKENS: 'a=ann:reader' }
  const processes = [0, -HOUR, HOUR].map((seconds) => startProcess({ ...env, ...seconds !== 0 && skewedBy(seconds) }))
  const urls = await Promise.all(processes.map((each) => each.url()))
  const answers = await Promise.all(Array.from({ length: 200 }, (_, at) => (
    fetch(`${urls[at % urls.length] ?? ''}/users`, { headers: { authorization: 'Bearer a' } })
  )))
  const skews = answers.slice(0, 3).map((answer) => Math.round((Date.parse(answer.headers.get('date') ?? '') - Date.now()) / 1000 / HOUR) + 0)
  assert.deepEqual(skews, [0, -1, 1], 'the clocks are wrong')
  assert.equal(answers.filter(({ status }) => status === 200).length, 5)
  for (const answer of answers) {
    const left = Number(/;t=(\d+)/.exec(answer.headers.get('ratelimit') ?? '')?.[1])
    assert.ok(left >= 1 && left <= 60, `${String(left)} s until the limit starts anew`)
    if (answer.status === 429) assert.ok(Number(answer.headers.get('retry-after')) <= 60)
  }
  for (const { child } of processes) child.kill('SIGTERM')
  for (const each of processes) assert.deepEqual(await each.exited, { code: 0, signal: null }, each.err)
})

describe('a process whose clock is off', { concurrency: true }, () => {
  for (const seconds of [-16, 16, -600, 600]) {
    test(`by ${String(seconds)} s keeps its running work, and its results can be read`, async (t) => {
      const here = tasksHere(t)
      const child = start('process.ts', redis.url, skewedBy(seconds))
      const { now, running, ended } = await said<{ now: number, running: string, ended: string }>(child)
      assert.ok(Math.abs((now - Date.now()) / 1000 - seconds) < 8, 'its clock is wrong')
      // Three leases.
      const until = performance.now() + 6000
      while (performance.now() < until) {
        assert.equal((await here.get(running))?.status, 'processing')
        assert.equal((await here.get(ended))?.status, 'completed')
        await pause(200)
      }
      child.child.kill('SIGKILL')
      await child.exited
    })
  }

  test('behind or ahead runs a request with an Idempotency-Key once', async () => {
    const env = { REDIS_URL: `${redis.url}/2`, AUTH_TOKENS: 'writer-1=will:writer' }
    const processes = [0, -600, 600].map((seconds) => startProcess({ ...env, ...seconds !== 0 && skewedBy(seconds) }))
    const clients = (await Promise.all(processes.map((each) => each.url()))).map((url) => new Client(url))
    for (const first of clients) {
      const key = { 'idempotency-key': `key-${String(clients.indexOf(first))}` }
      const { json: { taskId } } = await first.submit('wait', { ms: 500 }, { headers: key })
      for (const other of clients) {
        const again = await other.submit('wait', { ms: 500 }, { headers: key })
        assert.equal(again.json.taskId, taskId, again.text)
      }
    }
    for (const { child } of processes) child.kill('SIGTERM')
    await Promise.all(processes.map(({ exited }) => exited))
  })
})

test('a wait of a second ends after a second, though the clock is set back by an hour meanwhile', async () => {
  const file = join(folder, 'waiter')
  writeFileSync(file, '+0\n')
  const child = start('waiter.ts', file, skewedByFile(file))
  const { took, setBack, state } = await said<{ took: number, setBack: number, state: string }>(child)
  assert.ok(setBack > 3_500_000, 'the clock was set back')
  assert.ok(took >= 990 && took < 4000, `${String(took)} ms`)
  assert.equal(state, 'processing')
})

/** One side of a queue, with a clock that is off. */
async function startQueue(url: string, role: 'work' | 'enqueue' | 'enqueue-long', name: string, seconds: number): Promise<ServerProcess> {
  const child = start('queue.ts', [url, role, name], seconds === 0 ? {} : skewedBy(seconds))
  await until(child, 'ready')
  return child
}

const postgres = await postgresUrl()
for (const [database, url] of [['Redis', redis.url], ['PostgreSQL', postgres]] as const) {
  describe(`on ${database} a delayed job runs when it is due,`, { concurrency: true }, () => {
    const cases = [['that took it in is behind', -HOUR, 0], ['that took it in is ahead', HOUR, 0], ['that runs it is ahead', 0, HOUR],
      ['that runs it is behind', 0, -HOUR]] as const
    for (const [at, [which, producer, worker]] of cases.entries()) {
      test(`though the clock of the process ${which} by an hour`, async () => {
        const name = `clock-${String(at)}`
        const working = await startQueue(url, 'work', name, worker)
        const producing = await startQueue(url, 'enqueue', name, producer)
        const taken = performance.now()
        await until(working, 'ran job')
        const took = performance.now() - taken
        assert.ok(took > 2500 && took < 15_000, `${String(took)} ms`)
        for (const { child } of [working, producing]) child.kill('SIGKILL')
      })
    }
  })
}

describe('on PostgreSQL a live worker keeps its job,', { concurrency: true }, () => {
  const cases = [['its clock is behind', -HOUR, 0], ['its clock is ahead', HOUR, 0], ['another clock is ahead', 0, HOUR], ['another clock is behind', 0, -HOUR]] as const
  for (const [at, [which, own, others]] of cases.entries()) {
    test(`though ${which} by an hour`, async () => {
      const name = `lock-${String(at)}`
      const working = await startQueue(postgres, 'work', name, own)
      const producing = await startQueue(postgres, 'enqueue-long', name, 0)
      await until(working, 'ran job')
      const other = await startQueue(postgres, 'work', name, others)
      await until(working, 'ended job')
      assert.deepEqual([working, other].map(({ out }) => out.match(/ran job/g)?.length ?? 0), [1, 0])
      for (const { child } of [working, producing, other]) child.kill('SIGKILL')
    })
  }
})
