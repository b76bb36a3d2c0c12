// The report of a bulk task whose earlier run ends after a later one, or is killed.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { describe, test, type TestContext } from 'node:test'
import { memory } from '../../../adapters/memory/index.js'
import { bulkCreate } from '../../../src/bulk/create.js'
import { bulkItems } from '../../../src/bulk/items.js'
import type { Call } from '../../../src/repositories/repository.js'
import { taskEndpoints } from '../../../src/tasks/http/endpoints.js'
import { createTasks } from '../../../src/tasks/tasks.js'
import { ask, draft, people, type Draft, type User } from '../kit/bulk.js'
import { deferred } from '../../kit/wait.js'

/** A bulk endpoint on memory. `write` does the n-th write. */
function open(t: TestContext, write: (count: number, call: Call) => unknown) {
  const { store, engine, blobs } = memory()
  let calls = 0
  const bulk = bulkCreate<User, Draft>({
    schema: draft, batchSize: 2, onError: () => undefined,
    repository: {
      createMany: async (drafts, call) => {
        await write(++calls, call)
        return drafts.map((each, at) => ({ ...each, id: calls * 10 + at, role: 'viewer' }))
      },
    },
    background: { name: 'create', blobs },
  })
  const tasks = createTasks({ store, engine, definitions: [bulk.task], onError: () => undefined })
  t.after(async () => {
    await tasks.close({ drainMs: 0 })
    await blobs.close()
    await store.close()
  })
  const endpoints = taskEndpoints(tasks, { statusPath: '/status/{id}', owner: 'anyone' })
  const items = bulkItems({ endpoints, blobs })
  return {
    tasks, blobs,
    async post(count: number): Promise<string> {
      const { headers } = await ask(bulk.handler(endpoints), {
        body: people(count),
        headers: { prefer: 'respond-async' },
      })
      return String(headers['location']).split('/').at(-1) as string
    },
    async indexes(id: string): Promise<number[]> {
      const { status, text } = await ask((request) => items({ ...request, path: `/status/${id}/items` }), {
        method: 'GET',
        raw: true,
      })
      assert.equal(status, 200, text)
      return text.split('\n').slice(0, -1).map((line) => (JSON.parse(line) as { index: number }).index)
    },
  }
}

type Deferred = ReturnType<typeof deferred<void>>

describe('the report of a bulk task', () => {
  test('comes from the run that completed the task, although a cancelled run ends later', async (t) => {
    const [begun, go, late] = [deferred(), deferred(), deferred()]
    const { tasks, blobs, post, indexes } = open(t, async (call) => {
      if (call !== 2) return
      begun.resolve()
      await go.promise
    })
    const id = await post(6)
    await begun.promise
    await tasks.cancel(id)
    await tasks.retry(id)
    assert.equal((await tasks.wait(id, { timeoutMs: 10_000 }))?.status, 'completed')
    assert.deepEqual(await indexes(id), [0, 1, 2, 3, 4, 5])
    const put = blobs.put.bind(blobs)
    blobs.put = async (key, ...rest) => {
      const info = await put(key, ...rest)
      if (key.endsWith('/1/0')) late.resolve()
      return info
    }
    go.resolve()
    await late.promise
    assert.deepEqual(await indexes(id), [0, 1, 2, 3, 4, 5])
  })

  test('replaces the reports of earlier runs, so that repeated cancels and retries do not fill the blobs', async (t) => {
    const RUNS = 5
    const [begun, stored] = [0, 0].map(() => Array.from({ length: RUNS + 1 }, () => deferred<void>())) as [
      Deferred[],
      Deferred[],
    ]
    let run = 1
    const { tasks, blobs, post, indexes } = open(t, async (call, { signal }) => {
      if (call === 1) return
      begun[run]?.resolve()
      await once(signal, 'abort')
    })
    const keys = new Set<string>()
    const put = blobs.put.bind(blobs)
    blobs.put = async (key, ...rest) => {
      const info = await put(key, ...rest)
      keys.add(key)
      if (key.endsWith('/1/0')) stored[1]?.resolve()
      return info
    }
    // The last of the earlier reports that is deleted is that of the first run.
    const remove = blobs.delete.bind(blobs)
    blobs.delete = async (key) => {
      const isDeleted = await remove(key)
      if (key.endsWith('/1/0')) stored[run]?.resolve()
      return isDeleted
    }
    const id = await post(100)
    for (;;) {
      await begun[run]?.promise
      await tasks.cancel(id)
      await stored[run]?.promise
      if (run === RUNS) break
      run++
      await tasks.retry(id)
    }
    const reports = [...keys].filter((key) => key.endsWith('/0'))
    assert.equal(reports.length, RUNS)
    const kept = await Promise.all(reports.map(async (key) => (await blobs.stat(key)) !== undefined))
    assert.deepEqual(
      reports.filter((_, at) => kept[at]),
      reports.slice(-1),
    )
    const items = await indexes(id)
    assert.ok(items.length > 0)
    assert.deepEqual(
      items,
      items.map((_, at) => at),
    )
  })

  test('comes from an earlier run if the last run of a cancelled task has stored no report', async (t) => {
    const [first, second] = [deferred(), deferred()]
    const { tasks, blobs, post, indexes } = open(t, async (call, { signal }) => {
      if (call !== 2 && call !== 4) return
      if (call === 2) first.resolve()
      else second.resolve()
      await once(signal, 'abort')
    })
    const stored = deferred()
    const refused = deferred()
    const put = blobs.put.bind(blobs)
    blobs.put = async (key, ...rest) => {
      if (key.endsWith('/2/0')) {
        refused.resolve()
        throw new Error('The disk is full')
      }
      const info = await put(key, ...rest)
      if (key.endsWith('/1/0')) stored.resolve()
      return info
    }
    const id = await post(8)
    await first.promise
    await tasks.cancel(id)
    await stored.promise
    await tasks.retry(id)
    await second.promise
    await tasks.cancel(id)
    await refused.promise
    assert.deepEqual(await indexes(id), [0, 1, 2, 3])
  })
})
