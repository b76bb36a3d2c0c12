// Tasks that ask, in several processes: workers are killed at each step, and the answer comes from another process.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { describe, test, type TestContext } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { createTasks, defineTask, isHttpError, jsonSchema } from 'longhaul'
import { ServerProcess, stopAfterwards } from '../../http/kit/process.js'
import { eventually, keepAlive } from '../../kit/wait.js'
import { openDatabase } from '../../servers/open-database.js'
import { postgresUrl } from '../../servers/postgres-url.js'
import { program } from '../../servers/program.js'
import { redisUrl } from '../../servers/redis-server.js'
import { sqliteUrl } from '../../servers/sqlite.js'
import { openAsking, type Death } from './ask-work.js'

stopAfterwards()
const urls = { SQLite: await sqliteUrl(), Redis: await redisUrl(), PostgreSQL: await postgresUrl() }
const ANSWER = { approve: { send: true, by: 'ann' } }
let names = 0

/** A process without a worker, which submits and answers, and a way to start workers. */
function setUp(t: TestContext, url: string) {
  keepAlive(t)
  const name = `ask_${String(process.pid)}_${String(++names)}`
  const site = openAsking(url, name, { worker: false })
  t.after(async () => {
    await site.tasks.close({ drainMs: 0 })
    await site.close()
  })
  const start = async (death: Death = 'never'): Promise<ServerProcess> => {
    const worker = new ServerProcess(
      process.execPath,
      [...program(join(import.meta.dirname, 'ask-worker.ts')), url, name, death],
      {},
    )
    await worker.said(/ready/)
    return worker
  }
  const reaches = (id: string, status: string) =>
    eventually(async () => (await site.tasks.get(id))?.status === status, 30_000, `${id} is ${status}`)
  return { ...site, name, start, reaches }
}

for (const [database, url] of Object.entries(urls)) {
  describe(`A task that asks on ${database}`, () => {
    for (const death of ['before', 'stored'] as const) {
      test(`asks once, although its worker dies ${death === 'before' ? 'before the question is stored' : 'when the question is stored'}`, async (t) => {
        const { tasks, mail, start, reaches } = setUp(t, url)
        const dying = await start(death)
        const { taskId } = await tasks.submit(mail, {})
        await dying.exited
        if (death === 'stored') assert.equal((await tasks.get(taskId))?.status, 'input_required')
        await start()
        await reaches(taskId, 'input_required')
        assert.equal((await tasks.answer(taskId, ANSWER))?.status, 'queued')
        await reaches(taskId, 'completed')
        const attempt = death === 'before' ? 2 : 1
        assert.deepEqual((await tasks.get(taskId))?.result, { send: true, by: 'ann', drafts: 1, attempt })
      })
    }

    test('waits without any worker, and runs from its checkpoint once there is a worker', async (t) => {
      const { tasks, mail, start, reaches, engine } = setUp(t, url)
      const first = await start()
      const { taskId } = await tasks.submit(mail, {})
      await reaches(taskId, 'input_required')
      const waits = await engine.read(taskId)
      first.child.kill('SIGKILL')
      await first.exited
      assert.deepEqual(await engine.read(taskId), waits)
      assert.equal((await tasks.answer(taskId, ANSWER))?.status, 'queued')
      // The process that gave the answer is not the one that runs the task.
      await start()
      await reaches(taskId, 'completed')
      const task = await engine.read(taskId)
      assert.deepEqual([task?.run, task?.attempt, task?.crashes], [2, 1, 0])
    })

    test('stores one of two different answers from two processes', async (t) => {
      const { tasks, mail, name, start, reaches } = setUp(t, url)
      const other = openAsking(url, name, { worker: false })
      t.after(async () => {
        await other.tasks.close({ drainMs: 0 })
        await other.close()
      })
      await start()
      for (let n = 0; n < 5; n++) {
        const { taskId } = await tasks.submit(mail, {})
        await reaches(taskId, 'input_required')
        const sides = [{ side: tasks, by: 'ann' }, { side: other.tasks, by: 'bob' }, { side: tasks, by: 'cid' }]
        const answers = await Promise.all(sides.map(async ({ side, by }): Promise<string> => {
          try {
            await side.answer(taskId, { approve: { send: true, by } })
            return by
          } catch (error) {
            return isHttpError(error) ? error.code : String(error)
          }
        }))
        const winners = answers.filter((each) => each !== 'already_answered')
        assert.equal(winners.length, 1, answers.join())
        await reaches(taskId, 'completed')
        assert.equal((await other.tasks.get(taskId, other.mail) as { result?: { by: string } }).result?.by, winners[0])
      }
    })

    test('takes no place, no connection and no memory while it waits', async (t) => {
      keepAlive(t)
      const { parts, close, ...database } = openDatabase(url, { name: `held_${String(process.pid)}` })
      const held: WeakRef<object>[] = []
      const asking = defineTask({
        name: 'asking', asks: { go: jsonSchema<boolean>({ type: 'boolean' }) },
        run: async (_input: object, { ask }) => {
          const large = { bytes: new Uint8Array(65_536) }
          held.push(new WeakRef(large))
          const go = await ask('go', { message: 'Go?' })
          return { go, size: large.bytes.length }
        },
      })
      const tasks = createTasks({ ...parts, definitions: [asking], concurrency: 1 })
      t.after(async () => {
        await tasks.close({ drainMs: 0 })
        await close()
      })
      const count = 30
      for (let n = 0; n < count; n++) await tasks.submit(asking, {})
      await eventually(
        async () => (await tasks.list({ status: 'input_required', limit: 200 })).items.length === count,
        30_000,
      )
      const [pool] = await tasks.pools()
      assert.deepEqual([pool?.running, pool?.waiting, pool?.delayed], [0, 0, count])
      await eventually(async () => (await tasks.health()).running === 0)
      setFlagsFromString('--expose-gc')
      const collect = runInNewContext('gc') as () => void
      await eventually(async () => {
        collect()
        return held.every((each) => each.deref() === undefined)
      }, 10_000, 'the runs are collected')
      const connections = 'pool' in database ? (database.pool as { totalCount: number, idleCount: number }) : undefined
      if (connections)
        await eventually(
          async () => connections.totalCount - connections.idleCount <= 1,
          10_000,
          'the connections are idle',
        )
    })
  })
}
