// Runs that start work in another system: the id of that work, and its end, on each engine, between two processes.
import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { createTasks, defineTask, type TaskContext, type TaskOptions } from 'longhaul'
import { deferred, eventually, keepAlive, within } from '../../kit/wait.js'
import { openDatabase } from '../../servers/open-database.js'
import { postgresUrl } from '../../servers/postgres-url.js'
import { redisUrl } from '../../servers/redis-server.js'
import { sqliteUrl } from '../../servers/sqlite.js'

const urls = { memory: undefined, SQLite: await sqliteUrl(), Redis: await redisUrl(), PostgreSQL: await postgresUrl() }
let opened = 0

type Run = (context: TaskContext) => unknown
type Options = Partial<Pick<TaskOptions<unknown, unknown>, 'attempts' | 'backoff' | 'timeoutMs' | 'cancel'>>

for (const [engine, url] of Object.entries(urls)) {
  describe(engine, () => {
    /** A process that works and one that only submits; in memory they are the same one. */
    function open(t: TestContext, run: Run, options: Options = {}) {
      keepAlive(t)
      const name = `work_${String(process.pid)}_${String(++opened)}`
      const [workIds, cancelled, errors]: [string[], string[], unknown[]] = [[], [], []]
      const process_ = (worker: boolean) => {
        const { parts, close } = openDatabase(url, { name, leaseMs: 2000 })
        const work = defineTask({
          name: 'work',
          backoff: { type: 'fixed', delayMs: 1 },
          cancel: (workId) => {
            cancelled.push(workId)
          },
          ...options,
          run: async (_input, context) => {
            workIds.push(context.workId ?? '')
            return (await run(context)) as null
          },
        })
        const tasks = createTasks({ ...parts, definitions: [work], worker, onError: (error) => { errors.push(error) } })
        let ending: Promise<void> | undefined
        const end = () => ending ??= tasks.close({ drainMs: 0 }).then(close)
        t.after(end)
        return { tasks, work, end }
      }
      const worker = process_(true)
      const web = url === undefined ? worker : process_(false)
      const submit = () => web.tasks.submit(web.work, {})
      return { workIds, cancelled, errors, worker, web, submit, process_ }
    }
    const untilAborted = ({ signal }: TaskContext) =>
      new Promise<never>((_, reject) => {
        signal.addEventListener('abort', () => {
          reject(signal.reason as Error)
        })
      })

    test('the id of external work contains the id of its task, and changes with each failed attempt and each retry', async (t) => {
      const { workIds, cancelled, web, submit } = open(
        t,
        () => {
          throw new Error('no')
        },
        { attempts: 2 },
      )
      const task = await submit()
      await task.wait({ timeoutMs: 20_000 })
      await web.tasks.retry(task.taskId)
      await task.wait({ timeoutMs: 20_000 })
      assert.deepEqual(
        workIds.map((id) => id.startsWith(`${task.taskId}.`)),
        [true, true, true, true],
      )
      assert.equal(new Set(workIds).size, 4)
      for (const id of workIds) assert.match(id, /^[A-Za-z0-9._-]{1,180}$/)
      assert.deepEqual(cancelled, [])
    })

    test('a cancelled task calls cancel with the id of the run, even if the run starts its work after the cancel', async (t) => {
      const started: string[] = []
      const begun = deferred()
      const { cancelled, web, submit } = open(
        t,
        async (context) => {
          begun.resolve()
          await untilAborted(context).catch(() => undefined)
          started.push(context.workId ?? '')
        },
        {
          cancel: (workId) => {
            cancelled.push(`${workId} ${String(started.length)}`)
          },
        },
      )
      const task = await submit()
      await within(begun.promise, 20_000)
      await web.tasks.cancel(task.taskId)
      await eventually(() => cancelled.at(-1) === `${String(started[0])} 1`, 20_000)
    })

    test('a task that is cancelled between two runs calls cancel', async (t) => {
      const { workIds, cancelled, web, submit } = open(
        t,
        () => {
          throw new Error('no')
        },
        { attempts: 2, backoff: { type: 'fixed', delayMs: 3_600_000 } },
      )
      const task = await submit()
      await eventually(() => workIds.length === 1, 20_000)
      await eventually(async () => (await web.tasks.get(task.taskId))?.status !== 'processing', 20_000)
      await web.tasks.cancel(task.taskId)
      await eventually(() => cancelled.length === 1, 20_000)
      assert.ok(cancelled[0]?.startsWith(`${task.taskId}.2.`))
    })

    test('a task that is cancelled before its first run does not call cancel', async (t) => {
      const { cancelled, web } = open(t, () => null)
      const task = await web.tasks.submit(web.work, {}, { delayMs: 3_600_000 })
      await web.tasks.cancel(task.taskId)
      assert.deepEqual(cancelled, [])
    })

    test('a run that takes too long calls cancel', async (t) => {
      const { workIds, cancelled, submit } = open(t, untilAborted, { timeoutMs: 50 })
      await (await submit()).wait({ timeoutMs: 20_000 })
      await eventually(() => cancelled.length === 1, 20_000)
      assert.deepEqual(cancelled, workIds)
    })

    test('a cancel that throws is reported, and the task is cancelled', async (t) => {
      const { errors, workIds, web, submit } = open(t, untilAborted, {
        cancel: () => {
          throw new Error('it is away')
        },
      })
      const task = await submit()
      await eventually(() => workIds.length === 1, 20_000)
      assert.equal((await web.tasks.cancel(task.taskId))?.status, 'cancelled')
      await eventually(() => errors.some((error) => String(error).includes('it is away')), 20_000)
    })

    if (url === undefined) {
      test('a close calls cancel if the task ends with its process', async (t) => {
        const { workIds, cancelled, worker, submit } = open(t, untilAborted)
        await submit()
        await eventually(() => workIds.length === 1, 20_000)
        await worker.end()
        assert.deepEqual(cancelled, workIds)
      })
    } else {
      test('a run after a close has the same id if the task outlives its process, and the close does not call cancel', async (t) => {
        const { workIds, cancelled, worker, submit, process_ } = open(t, untilAborted)
        await submit()
        await eventually(() => workIds.length === 1, 20_000)
        await worker.end()
        process_(true)
        await eventually(() => workIds.length === 2, 20_000)
        assert.equal(workIds[0], workIds[1])
        assert.deepEqual(cancelled, [])
      })
    }
  })
}
