import assert from 'node:assert/strict'
import type { ListedStatus } from '../../stores/task-index.js'
import type { Cases } from '../runner.js'
import { eventually, pause, together } from '../waiting.js'
import { HOUR, listedTask, type Context } from './context.js'

const numbered = (count: number): string[] => (
  Array.from({ length: count }, (_, n) => `task-${String(n).padStart(3, '0')}`)
)

/** Tests of changes of the lists. */
export const changeCases: Cases<Context> = {
  'a task is in the list of its newest status only': async (context) => {
    const statuses: ListedStatus[] = ['scheduled', 'queued', 'processing', 'queued', 'processing', 'failed']
    for (const [n, status] of statuses.entries()) {
      await context.put({ id: 'one', status, version: n + 1 })
      assert.deepEqual((await context.entries()).map((entry) => entry.status), [status])
      for (const other of statuses) {
        const expected = other === status ? ['one'] : []
        assert.deepEqual(await context.ids({ of: { owner: 'ann' }, statuses: [other] }), expected)
      }
    }
  },

  'an older version never replaces a newer one': async (context) => {
    await context.put(
      { id: 'one', status: 'completed', version: 3 },
      { id: 'one', status: 'processing', version: 2 },
      { id: 'one', status: 'queued', version: 1 },
    )
    assert.deepEqual((await context.entries()).map(({ status }) => status), ['completed'])
    await context.put({ id: 'one', status: 'cancelled', version: 3 })
    assert.deepEqual((await context.entries()).map(({ status }) => status), ['cancelled'])
  },

  'versions that arrive in any order end at the newest': async (context) => {
    const { index, second } = context
    const ids = numbered(20)
    await together(ids.length * 5, async (n) => {
      const id = ids[n % ids.length] as string
      const version = 1 + ((n + Math.floor(n / ids.length) * 3) % 5)
      const status = version === 5 ? 'completed' : 'processing'
      await (n % 2 === 0 ? index : second).put(listedTask({ id, version, status }))
    })
    assert.deepEqual(await context.ids({ statuses: ['completed'], order: 'oldest' }), ids)
    assert.deepEqual(await context.ids({ statuses: ['processing'] }), [])
  },

  'a later task under the same id replaces the earlier one': async (context) => {
    await context.put(
      { id: 'one', status: 'completed', version: 5, createdAt: 1000 },
      { id: 'one', status: 'queued', version: 1, createdAt: 2000 },
      { id: 'one', status: 'completed', version: 6, createdAt: 1000 },
    )
    const [entry, other] = await context.entries()
    assert.deepEqual([entry?.status, entry?.createdAt, other], ['queued', 2000, undefined])
    assert.deepEqual(await context.ids({ statuses: ['completed'] }), [])
  },

  'putting the same task twice has no effect': async (context) => {
    for (let times = 0; times < 3; times++) await context.put({ id: 'one' }, { id: 'two', owner: undefined })
    assert.deepEqual(await context.ids({ order: 'oldest' }), ['one', 'two'])
  },

  '`putSoon` is seen at once by the same index, and soon by others': async (context) => {
    const { index, timeoutMs } = context
    index.putSoon(listedTask({ id: 'one', status: 'processing', version: 2 }))
    index.putSoon(listedTask({ id: 'one', status: 'completed', version: 3 }))
    index.putSoon(listedTask({ id: 'one', status: 'processing', version: 2 }))
    const own = await index.list({ of: { owner: 'ann' }, order: 'newest', limit: 5 })
    assert.deepEqual(own.map(({ status }) => status), ['completed'])
    index.putSoon(listedTask({ id: 'two' }))
    await eventually(async () => (await context.ids()).length === 2, timeoutMs, 'both are listed')
  },

  'a check is removed no earlier than the list was written': async (context) => {
    const { index, second, timeoutMs } = context
    for (const id of numbered(30)) {
      await index.put(listedTask({ id, owner: id }))
      await index.add(`${id}~job`, 0)
    }
    for (const id of numbered(30)) {
      index.putSoon(listedTask({ id, owner: id, status: 'completed', version: 2 }))
      index.remove(`${id}~job`)
    }
    await eventually(async () => {
      const left = new Set((await second.take(100, 0)).map((entry) => entry.slice(0, -4)))
      // `take` may pass over a check whose removal is not yet visible to others, like its list.
      const removed = numbered(30).filter((id) => !left.has(id))
      await eventually(async () => {
        const completed = new Set(await context.ids({ statuses: ['completed'] }))
        return removed.every((id) => completed.has(id))
      }, timeoutMs, 'tasks without a check are in their list')
      return left.size === 0
    }, timeoutMs, 'all checks are removed')
  },

  'a dropped task is in no list, and may be put again': async (context) => {
    await context.put({ id: 'one' }, { id: 'two', owner: undefined }, { id: 'three' })
    const tasks = ['one', 'two', 'never-was'].map((id) => listedTask({ id }))
    await context.index.drop([...tasks, listedTask({ id: 'two', owner: undefined, status: 'completed' })])
    assert.deepEqual(await context.ids(), ['three'])
    assert.deepEqual(await context.ids({ of: { owner: 'ann' } }), ['three'])
    await context.put({ id: 'one', status: 'processing', version: 2 })
    assert.deepEqual(await context.ids({ order: 'oldest' }), ['one', 'three'])
  },

  'only the task with the same time of creation is dropped': async (context) => {
    await context.put({ id: 'one', createdAt: 2000 })
    await context.index.drop([listedTask({ id: 'one', createdAt: 1000 })])
    assert.deepEqual(await context.ids(), ['one'])
  },

  'dropping an earlier task keeps a new one of this id that was put at the same time': async (context) => {
    await context.put({ id: 'one', createdAt: 1000 })
    context.index.putSoon(listedTask({ id: 'one', createdAt: 2000 }))
    await context.index.drop([listedTask({ id: 'one', createdAt: 1000 })])
    assert.deepEqual((await context.entries()).map(({ createdAt }) => createdAt), [2000])
  },

  'no task is skipped or repeated while others come, change and go': async (context) => {
    const stable = numbered(60)
    for (const [n, id] of stable.entries()) {
      await context.put({ id, createdAt: 1000 + n * 10, status: n % 2 === 0 ? 'queued' : 'processing' })
    }
    for (const order of ['newest', 'oldest'] as const) {
      let round = 0
      const seen = await context.pages({ order, of: { owner: 'ann' } }, async () => {
        round++
        const id = `other-${order}-${String(round)}`
        const createdAt = 1000 + ((round * 97) % 600)
        await context.put({ id, createdAt })
        if (round % 2 === 0) await context.index.drop([listedTask({ id, createdAt })])
        // A task that was or will be read changes its status.
        const n = (round * 17) % 60
        await context.put({ id: stable[n] as string, createdAt: 1000 + n * 10, version: round + 1, status: 'completed' })
      })
      assert.equal(new Set(seen).size, seen.length, 'a task was listed twice')
      const ids = seen.filter((id) => id.startsWith('task-')).sort()
      assert.deepEqual(ids, stable, 'a task was skipped')
    }
  },

  'a page that is read while a task changes its status has it once': async (context) => {
    const { index } = context
    await context.put({ id: 'one' })
    let version = 1
    const writing = (async () => {
      for (; version < 100; version++) {
        await index.put(listedTask({
          id: 'one', version: version + 1, status: version % 2 === 0 ? 'queued' : 'processing',
        }))
      }
    })()
    while (version < 100) {
      assert.deepEqual(await context.ids({ of: { owner: 'ann' } }), ['one'])
      // Lets the writer run, if the index answers without input or output.
      await pause(0)
    }
    await writing
  },

  'an expired task is replaced by a later one; the same version keeps the later expiry': async (context) => {
    await context.put({ id: 'again', ttlMs: 1, status: 'failed', version: 9 }, { id: 'again', createdAt: 5000 })
    await context.put({ id: 'extended', ttlMs: 1 }, { id: 'extended', ttlMs: HOUR })
    await context.put({ id: 'same', ttlMs: HOUR }, { id: 'same', ttlMs: 1 })
    await pause(5)
    assert.deepEqual(await context.ids({ order: 'oldest' }), ['extended', 'same', 'again'])
    assert.deepEqual(await context.ids({ statuses: ['failed'] }), [])
  },
}
