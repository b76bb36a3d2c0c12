// A worker that is frozen before its first write, continues after another one has taken its task, and then dies.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { createTasks, defineTask } from 'longhaul'
import { ServerProcess, stopAfterwards } from '../../http/kit/process.js'
import { postgresUrl } from '../../servers/postgres-url.js'
import { redisUrl } from '../../servers/redis-server.js'
import { openDatabase } from '../../servers/open-database.js'
import { program } from '../../servers/program.js'

stopAfterwards()

async function startWorker(url: string, name: string): Promise<ServerProcess> {
  const worker = new ServerProcess(
    process.execPath,
    [...program(join(import.meta.dirname, '..', 'clocks', 'side.ts')), url, 'work', name],
    {},
  )
  await worker.said(/ready/)
  return worker
}

function openFront(t: TestContext, url: string, name: string) {
  const { parts, close } = openDatabase(url, { name, leaseMs: 2000 })
  const work = defineTask({ name: 'work', run: ({ ms }: { ms: number }) => ms })
  const tasks = createTasks({ ...parts, definitions: [work], worker: false })
  t.after(async () => {
    await tasks.close({ drainMs: 0 })
    await close()
  })
  return { tasks, work }
}

for (const [database, url] of Object.entries({ Redis: await redisUrl(), PostgreSQL: await postgresUrl() })) {
  test(`a task on ${database} whose worker freezes, continues and then dies is completed by another worker, in one attempt`, async (t) => {
    const { tasks, work } = openFront(t, url, 'frozen')
    const first = await startWorker(url, 'frozen')
    await tasks.submit(work, { ms: 4000 }, { id: 'task' })
    await first.said(/ran task/)
    first.child.kill('SIGSTOP')
    const other = await startWorker(url, 'frozen')
    await other.said(/ran task/)
    first.child.kill('SIGCONT')
    // Its own run goes on to its end, and cannot write it.
    await first.said(/ended task/)
    first.child.kill('SIGKILL')
    await first.exited
    const end = await tasks.wait('task', { timeoutMs: 15_000 })
    assert.deepEqual([end?.status, end?.attempt], ['completed', 2])
    assert.ok(other.out.includes('ended task'), 'the other one has ended it')
    other.child.kill('SIGKILL')
  })
}
