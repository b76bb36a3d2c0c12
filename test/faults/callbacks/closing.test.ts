// A process closes while a receiver of a callback is silent.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { callbacks, httpSender } from 'longhaul/callbacks'
import { createTasks, defineTask, type Tasks } from 'longhaul'
import { receiver, SECRET } from '../../http/kit/callbacks.js'
import { postgresUrl } from '../../servers/postgres-url.js'
import { redisUrl } from '../../servers/redis-server.js'
import { openDatabase } from '../../servers/open-database.js'
import { eventually } from '../../kit/wait.js'

const work = defineTask({ name: 'work', run: () => 1 })

/** A process that sends callbacks, and the way to end it. */
function start(
  t: TestContext,
  url: string,
): { readonly tasks: Tasks; readonly end: (drainMs: number) => Promise<void> } {
  const { parts, close } = openDatabase(url, { name: 'closing', leaseMs: 2000 })
  const tasks = createTasks({
    ...parts,
    definitions: [work],
    onError: () => undefined,
    callbacks: callbacks({ sender: httpSender({ allow: ['127.0.0.1'], timeoutMs: 600_000 }), secrets: () => [SECRET] }),
  })
  let ended: Promise<void> | undefined
  const end = (drainMs: number): Promise<void> =>
    (ended ??= (async () => {
      await tasks.close({ drainMs })
      await close()
    })())
  t.after(() => end(0))
  return { tasks, end }
}

for (const [database, url] of Object.entries({ Redis: await redisUrl(), PostgreSQL: await postgresUrl() })) {
  test(`on ${database}, a process that stops aborts a callback to a silent receiver, and another process repeats it at once`, async (t) => {
    const silent = await receiver(t, (res, nth) => {
      if (nth > 1) res.end()
    })
    const { tasks, end } = start(t, url)
    const { taskId } = await tasks.submit(work, 1, { callbackUrl: silent.url })
    await eventually(async () => silent.seen.length === 1, 10_000, 'the callback is sent')
    await end(300)
    const other = start(t, url)
    // Without an outcome, it would be made again after a minute.
    await eventually(
      async () => (await other.tasks.get(taskId))?.callback?.state === 'delivered',
      20_000,
      'the callback is delivered',
    )
    assert.equal(silent.seen.length, 2)
  })
}
