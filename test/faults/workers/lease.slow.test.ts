import assert from 'node:assert/strict'
import { join } from 'node:path'
import { describe, test, type TestContext } from 'node:test'
import { createTasks, defineTask, type Tasks } from 'longhaul'
import { ServerProcess, stopAfterwards } from '../../http/kit/process.js'
import { postgresForFile } from '../../servers/postgres-server.js'
import { redisForFile } from '../../servers/redis-server.js'
import { openDatabase } from '../../servers/open-database.js'
import { program } from '../../servers/program.js'
import { eventually, pause } from '../../kit/wait.js'

stopAfterwards()
const servers = { Redis: await redisForFile(), PostgreSQL: await postgresForFile() }

interface Here {
  readonly tasks: Tasks
  /** Submits a task that never ends. Returns its id. */
  readonly submit: () => Promise<string>
  /** Ids of the tasks whose runs have begun here. */
  readonly began: string[]
  /** Ids of the tasks whose runs were aborted here. */
  readonly aborted: string[]
}

for (const [name, server] of Object.entries(servers)) describe(`on ${name}`, () => {
  async function startHolder(): Promise<{ process: ServerProcess, id: string }> {
    const holder = new ServerProcess(
      process.execPath,
      [...program(join(import.meta.dirname, 'lease-holder.ts')), server.url],
      {},
    )
    const [, id = ''] = await holder.said(/(.*)\n/)
    return { process: holder, id }
  }

  function openHere(t: TestContext, worker: boolean): Here {
    const { parts, close } = openDatabase(server.url, { leaseMs: 1000 })
    const began: string[] = []
    const aborted: string[] = []
    const endless = defineTask({ name: 'endless', run: (_input, { signal, taskId = '' }) => new Promise((_, reject) => {
      began.push(taskId)
      signal.addEventListener('abort', () => {
        aborted.push(taskId)
        reject(signal.reason as Error)
      })
    }) })
    const tasks = createTasks({ ...parts, definitions: [endless], worker, onError: () => undefined })
    t.after(async () => {
      for (const id of began) await tasks.cancel(id).catch(() => undefined)
      await tasks.close({ drainMs: 0 })
      await close()
    })
    return { tasks, submit: async () => (await tasks.submit(endless, {})).taskId, began, aborted }
  }

  test('a living process keeps its lease, and the task of a killed process runs again', async (t) => {
    const { process: holder, id } = await startHolder()
    const { tasks, began } = openHere(t, true)
    await pause(2500)
    assert.deepEqual([(await tasks.get(id))?.attempt, began], [1, []], 'a process that lives keeps its lease')
    holder.child.kill('SIGKILL')
    await eventually(() => began.includes(id), 30_000, 'the task runs again')
    assert.deepEqual([(await tasks.get(id))?.status, (await tasks.get(id))?.attempt], ['processing', 2])
  })

  test('an outage longer than the lease aborts the run but fails no task, and the task runs again', async (t) => {
    const [one, other] = [openHere(t, true), openHere(t, false)]
    const id = await one.submit()
    await eventually(() => one.began.length === 1, 30_000, 'the task runs')
    server.freeze()
    await eventually(() => one.aborted.length === 1, 30_000, 'the run ends before another process may take it')
    await pause(2000)
    server.thaw()
    await eventually(() => one.began.length === 2, 20_000, 'the task runs again')
    const until = performance.now() + 3000
    while (performance.now() < until) {
      const task = await other.tasks.get(id).catch(() => undefined)
      if (task) assert.equal(task.status, 'processing')
      await pause(50)
    }
    assert.equal(one.began.length, 2)
  })

  test('a cancel from another process aborts the run in its process', async (t) => {
    const [one, other] = [openHere(t, true), openHere(t, false)]
    const id = await one.submit()
    await eventually(() => one.began.includes(id), 30_000, 'the task runs')
    assert.equal((await other.tasks.cancel(id))?.status, 'cancelled')
    await eventually(() => one.aborted.includes(id), 30_000, 'the run is aborted at once')
  })
})
