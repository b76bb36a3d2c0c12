// `client.bulk` against our handlers on a real server: partial success by choice, and reports that are not in the status.
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { describe, test, type TestContext } from 'node:test'
import { createTasks, router, taskEndpoints } from 'longhaul'
import { bulkUpdate, bulkItems } from 'longhaul/bulk'
import { createClient } from 'longhaul/client'
import { memory } from 'longhaul/memory'
import { attach } from 'longhaul/node'
import { listen } from '../../kit/listen.js'

interface Change { readonly id: number, readonly name: string }
type Names = ReadonlyMap<number, string>

/** Names 1 to `count`, which a batch changes as a whole by default. */
async function serve(t: TestContext, { count = 3, maxInlineBytes = 262_144 } = {}) {
  const names = new Map(Array.from({ length: count }, (_, at) => [at + 1, 'old']))
  const repository = {
    update: (id: number, name: string) => (names.has(id) ? names.set(id, name) && { id, name } : undefined),
    transaction: async <R>(work: (inside: unknown) => Promise<R>): Promise<R> => {
      const before = [...names]
      return work(repository).catch((error: unknown) => {
        for (const [id, name] of before) names.set(id, name)
        throw error
      })
    },
  }
  const { engine, store, blobs } = memory()
  const update = bulkUpdate({
    repository: repository as never, id: ({ id }: Change) => id, change: ({ name }: Change) => name, background: { name: 'update', blobs, maxInlineBytes },
  })
  const tasks = createTasks({ engine, store, definitions: [update.task] })
  const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
  const server = createServer()
  attach(server, router({
    'PATCH /names': update.handler(endpoints), 'GET|HEAD|DELETE /tasks/{id}': endpoints.status, 'GET|HEAD /tasks/{id}/items': bulkItems({ endpoints, blobs }),
  }))
  const running = await listen(server)
  t.after(async () => {
    await tasks.close()
    await running.close()
  })
  return { names: names as Names, client: createClient({ baseUrl: `http://127.0.0.1:${running.port}` }) }
}

const options = { method: 'PATCH', items: '/updates' } as const
const to = (name: string, ...ids: readonly number[]): Change[] => ids.map((id) => ({ id, name }))

describe('the option handling of client.bulk', () => {
  for (const background of [false, true]) {
    const where = background ? 'in the background' : 'at once'
    test(`lenient changes what can be changed, ${where}`, async (t) => {
      const { client, names } = await serve(t)
      const { summary, items } = await client.bulk('/names', to('new', 1, 9, 3), { ...options, background, handling: 'lenient' })
      assert.deepEqual([summary, items.map(({ status }) => status)], [{ total: 3, succeeded: 2, failed: 1 }, [200, 404, 200]])
      assert.deepEqual([...names.values()], ['new', 'old', 'new'])
    })
  }
  test('strict changes all or nothing', async (t) => {
    const { client, names } = await serve(t)
    const report = await client.bulk('/names', to('new', 1, 9, 3), { ...options, handling: 'strict' })
    assert.deepEqual(report.items.map(({ status }) => status), [424, 404, 424])
    assert.deepEqual([...names.values()], ['old', 'old', 'old'])
  })
  test('rejects another value', async (t) => {
    const { client } = await serve(t)
    await assert.rejects(client.bulk('/names', to('new', 1), { ...options, handling: 'loose' as never }), /handling must be/)
  })
})
