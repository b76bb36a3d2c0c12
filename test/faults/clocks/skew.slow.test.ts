// Processes whose clocks are wrong, by minutes and by hours: time belongs to the store.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test, type TestContext } from 'node:test'
import { createTasks, defineTask, type Tasks } from 'longhaul'
import { Client } from '../../http/kit/reference.js'
import { ServerProcess, startProcess, stopAfterwards } from '../../http/kit/process.js'
import { skewedBy, skewedByFile } from '../../servers/faketime.js'
import { postgresUrl } from '../../servers/postgres-url.js'
import { redisForFile } from '../../servers/redis-server.js'
import { openDatabase } from '../../servers/open-database.js'
import { program } from '../../servers/program.js'
import { pause } from '../../kit/wait.js'

stopAfterwards()
const redis = await redisForFile()
const databases = { Redis: redis.url, PostgreSQL: await postgresUrl() }
const folder = mkdtempSync(join(tmpdir(), 'longhaul-clock-'))
after(() => { rmSync(folder, { recursive: true, force: true }) })

const HOUR = 3600

function start(file: string, given: string | readonly string[], env: Record<string, string>): ServerProcess {
  return new ServerProcess(process.execPath, [...program(join(import.meta.dirname, file)), ...[given].flat()], env)
}

/** Returns the value that a process prints in its first line. */
async function valueOf<T>(child: ServerProcess): Promise<T> {
  const [line] = await child.said(/.*\n/)
  return JSON.parse(line) as T
}

/** A worker that would give the task back if its lease had ended. */
function tasksHere(t: TestContext, url: string, name: string): Tasks {
  const { parts, close } = openDatabase(url, { name, leaseMs: 2000 })
  const tasks = createTasks({
    ...parts,
    definitions: [defineTask({ name: 'none', run: () => 1 })],
    onError: () => undefined,
  })
  t.after(async () => {
    await tasks.close({ drainMs: 0 })
    await close()
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
  const skews = answers
    .slice(0, 3)
    .map((answer) => Math.round((Date.parse(answer.headers.get('date') ?? '') - Date.now()) / 1000 / HOUR) + 0)
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

describe('a process with a wrong clock', { concurrency: true }, () => {
  for (const [database, url] of Object.entries(databases)) {
    for (const seconds of [-16, 16, -600, 600]) {
      test(`keeps its running work on ${database} and can read its results, with a clock ${String(seconds)} s off`, async (t) => {
        const name = `skew_${String(seconds).replace('-', 'minus_')}`
        const child = start('process.ts', [url, name], skewedBy(seconds))
        const { now, running, ended } = await valueOf<{ now: number, running: string, ended: string }>(child)
        assert.ok(Math.abs((now - Date.now()) / 1000 - seconds) < 8, 'its clock is wrong')
        const here = tasksHere(t, url, name)
        // Three leases.
        const until = performance.now() + 6000
        while (performance.now() < until) {
          const task = await here.get(running)
          assert.deepEqual([task?.status, task?.attempt], ['processing', 1])
          assert.equal((await here.get(ended))?.status, 'completed')
          await pause(200)
        }
        child.child.kill('SIGKILL')
        await child.exited
      })
    }
  }

  test('runs a request with an Idempotency-Key once, with a clock ahead or behind', async () => {
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

test('a wait of a second ends after a second, even if the clock is set back by an hour meanwhile', async () => {
  const file = join(folder, 'waiter')
  writeFileSync(file, '+0\n')
  const child = start('waiter.ts', file, skewedByFile(file))
  const { took, setBack, state } = await valueOf<{ took: number, setBack: number, state: string }>(child)
  assert.ok(setBack > 3_500_000, 'the clock was set back')
  assert.ok(took >= 990, `${String(took)} ms`)
  assert.equal(state, 'processing')
})

/** A process with a clock that is off. */
async function startSide(
  url: string,
  role: 'work' | 'submit' | 'submit-long',
  name: string,
  seconds: number,
): Promise<ServerProcess> {
  const child = start('side.ts', [url, role, name], seconds === 0 ? {} : skewedBy(seconds))
  await child.said(/ready/)
  return child
}

for (const [database, url] of Object.entries(databases)) {
  describe(`a delayed task on ${database} runs when it is due`, { concurrency: true }, () => {
    const cases = [
      ['that took it in is behind', -HOUR, 0],
      ['that took it in is ahead', HOUR, 0],
      ['that runs it is ahead', 0, HOUR],
      ['that runs it is behind', 0, -HOUR],
    ] as const
    for (const [at, [which, submitter, worker]] of cases.entries()) {
      test(`although the clock of the process ${which} by an hour`, async () => {
        const name = `clock_${String(at)}`
        const working = await startSide(url, 'work', name, worker)
        const submitting = await startSide(url, 'submit', name, submitter)
        const taken = performance.now()
        await working.said(/ran task/)
        const took = performance.now() - taken
        assert.ok(took > 2500, `${String(took)} ms`)
        for (const { child } of [working, submitting]) child.kill('SIGKILL')
      })
    }
  })

  describe(`a live worker on ${database} keeps its task`, { concurrency: true }, () => {
    const cases = [
      ['its clock is behind', -HOUR, 0],
      ['its clock is ahead', HOUR, 0],
      ['another clock is ahead', 0, HOUR],
      ['another clock is behind', 0, -HOUR],
    ] as const
    for (const [at, [which, own, others]] of cases.entries()) {
      test(`although ${which} by an hour`, async () => {
        const name = `lease_${String(at)}`
        const working = await startSide(url, 'work', name, own)
        const submitting = await startSide(url, 'submit-long', name, 0)
        await working.said(/ran task/)
        const other = await startSide(url, 'work', name, others)
        await working.said(/ended task/)
        assert.deepEqual([working, other].map(({ out }) => out.match(/ran task/g)?.length ?? 0), [1, 0])
        for (const { child } of [working, submitting, other]) child.kill('SIGKILL')
      })
    }
  })
}
