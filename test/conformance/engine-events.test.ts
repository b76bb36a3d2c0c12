import assert from 'node:assert/strict'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { test, type TestContext } from 'node:test'
import { createTasks, defineTask } from 'longhaul'
import type { StoreEvent } from 'longhaul/stores'
import { openDatabase } from '../servers/open-database.js'
import { postgresForFile } from '../servers/postgres-server.js'
import { redisForFile } from '../servers/redis-server.js'
import { eventually } from '../kit/wait.js'

function listen(t: TestContext): StoreEvent[] {
  const heard: StoreEvent[] = []
  const listener = (event: unknown): void => { heard.push(event as StoreEvent) }
  subscribe('longhaul:store', listener)
  t.after(() => { unsubscribe('longhaul:store', listener) })
  return heard
}

for (const [name, server] of Object.entries({ Redis: await redisForFile(), PostgreSQL: await postgresForFile() })) {
  test(`longhaul:store publishes each call of the task engine, even calls of an idle worker while ${name} is away`, async (t) => {
    const { parts, close } = openDatabase(server.url, { name: 'events', leaseMs: 2000 })
    const work = defineTask({
      name: 'work',
      run: ({ ms }: { ms: number }) =>
        new Promise((resolve) => {
          setTimeout(resolve, ms)
        }),
    })
    const tasks = createTasks({ ...parts, definitions: [work], onError: () => undefined })
    t.after(async () => {
      await tasks.close({ drainMs: 0 })
      await close()
    })
    await tasks.submit(work, { ms: 0 })
    const heard = listen(t)
    const hasHeard = (verb: StoreEvent['verb'], outcome: StoreEvent['outcome']): Promise<void> =>
      eventually(
        () => heard.some((event) => event.verb === verb && event.outcome === outcome),
        10_000,
        `${verb} ${outcome}`,
      )
    // Longer than a third of a lease, which is 2 s.
    const { taskId } = await tasks.submit(work, { ms: 1500 })
    await tasks.wait(taskId, { timeoutMs: 10_000 })
    await tasks.health()
    await parts.engine.counts('default')
    await parts.engine.list({ statuses: ['completed'], limit: 1, order: 'newest', of: 'all' })
    const task = await parts.engine.read(taskId)
    assert.ok(task, 'the task is there')
    await parts.engine.delete(task, task.version)
    for (const verb of [
      'create', 'look', 'take', 'renew', 'change', 'read', 'watch', 'probe', 'counts', 'list',
      'delete',
    ] as const)
      await hasHeard(verb, 'ok')
    for (const { ms } of heard) assert.ok(ms >= 0 && ms < 10_000, String(ms))
    assert.ok(
      heard.every((event) => event.outcome === 'ok' && !('error' in event)),
      'no error',
    )
    heard.length = 0
    server.freeze()
    try {
      // No request comes: only the worker notices.
      await hasHeard('look', 'unavailable')
      assert.ok(
        heard.some(({ outcome, ms }) => outcome === 'unavailable' && ms > 1000),
        'the worker waited for its deadline',
      )
      await assert.rejects(tasks.submit(work, { ms: 0 }), { name: 'StoreUnavailableError' })
      await hasHeard('create', 'unavailable')
      for (const { outcome, error } of heard) {
        if (outcome === 'unavailable') assert.match(String(error), /^StoreUnavailableError: .* (has|does) not respond/)
      }
      const { ok, error } = await tasks.health()
      assert.equal(ok, false)
      assert.match(String(error), /^StoreUnavailableError: .* (has|does) not respond/)
      assert.ok(!JSON.stringify({ error }).includes('respond'), 'JSON does not show the message')
    } finally {
      server.thaw()
    }
    heard.length = 0
    await hasHeard('look', 'ok')
    // The submission that failed may have arrived, and be running now.
    const { ok, error } = await tasks.health()
    assert.deepEqual([ok, error], [true, undefined])
  })
}
