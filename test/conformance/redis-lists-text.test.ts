// Lists on Redis of tasks with text that the JSON parser of its scripts rejects.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { createTasks, defineTask } from 'longhaul'
import { operatorEndpoints } from 'longhaul/operators'
import type { StoredTask } from '../../src/engine/task.js'
import { ask } from '../unit/kit/request.js'
import { openRedis } from '../servers/open-database.js'
import { redisUrl } from '../servers/redis-server.js'

const url = await redisUrl()
/** Above the depth that cjson reads. */
const DEEP: unknown = JSON.parse(`${'['.repeat(1500)}1${']'.repeat(1500)}`)
const VALUES = { 'half of a surrogate pair': 'https://example.com/\ud800?\udc00', 'deep nesting': DEEP }

for (const [what, value] of Object.entries(VALUES)) {
  describe(`tasks whose details contain ${what}`, () => {
    const database = openRedis(url, { name: `text-${what.replaceAll(/[^a-z0-9]/g, '-')}` })
    const { engine } = database.parts
    const work = defineTask({ name: 'work', run: () => undefined })
    const tasks = createTasks({ ...database.parts, definitions: [work], worker: false })
    const ids = Array.from({ length: 130 }, (_, n) => `task-${String(n).padStart(3, '0')}`)
    after(async () => {
      await tasks.close({ drainMs: 0 })
      await database.close()
    })

    test('appear in lists longer than one read of the engine, and in the overview of operators', async () => {
      for (const id of ids) {
        await tasks.submit(work, undefined, { id, owner: 'ann', context: value })
        await tasks.cancel(id)
      }
      const { items } = await tasks.ownedBy('ann').list({ limit: 130, order: 'oldest' })
      assert.deepEqual(items.map(({ taskId }) => taskId).sort(), ids)
      const endpoints = operatorEndpoints(tasks, { statusPath: '/operator/tasks/{id}', operator: () => true })
      const { status, json } = await ask(endpoints.overview, { path: '/operator/overview' })
      assert.equal(status, 200)
      assert.deepEqual(json['callbacks'], { examined: 130, failed: [] })
    })

    test('serve as a position for the next page', async () => {
      const seen: string[] = []
      for (let after: StoredTask | undefined; ;) {
        const page = await engine.list({ of: 'all', order: 'newest', limit: 50, after })
        if (page.length === 0) break
        seen.push(...page.map(({ id }) => id))
        after = page.at(-1)
      }
      assert.deepEqual(seen.sort(), ids)
      const stored = await engine.read('task-000')
      assert.equal(JSON.stringify(stored?.details), JSON.stringify({ context: value }))
    })
  })
}

test('tasks are listed for an owner whose name contains half of a surrogate pair', async () => {
  const database = openRedis(url, { name: 'text-owner' })
  const query = { of: { owner: 'ann\ud800' }, order: 'newest', limit: 10, names: ['\udc00'] } as const
  assert.deepEqual(await database.parts.engine.list(query), [])
  await database.close()
})
