// `client.bulk` against our handlers on a real server: partial success by choice, and reports that
// are not in the status.
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { describe, test, type TestContext } from 'node:test'
import { createTasks, router, taskEndpoints } from 'longhaul'
import { bulkUpdate, bulkItems } from 'longhaul/bulk'
import { createClient, isBulkFailed } from 'longhaul/client'
import { memory } from 'longhaul/memory'
import { attach } from 'longhaul/node'
import { listen } from '../../kit/listen.js'

interface Change { readonly id: number, readonly name: string }
type Names = ReadonlyMap<number, string>

/** Names 1 to `count`, which a batch changes as a whole by default. `hasItems`: serves the items of reports. */
async function serve(t: TestContext, { count = 3, maxInlineBytes = 262_144, hasItems = true } = {}) {
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
    repository: repository as never,
    id: ({ id }: Change) => id,
    change: ({ name }: Change) => name,
    background: { name: 'update', blobs, maxInlineBytes },
  })
  const tasks = createTasks({ engine, store, definitions: [update.task] })
  const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
  const server = createServer()
  attach(server, router({
    'PATCH /names': update.handler(endpoints), 'GET|HEAD|DELETE /tasks/{id}': endpoints.status,
    ...hasItems && { 'GET|HEAD /tasks/{id}/items': bulkItems({ endpoints, blobs }) },
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
    test(`lenient changes the valid items, ${where}`, async (t) => {
      const { client, names } = await serve(t)
      const { summary, items } = await client.bulk('/names', to('new', 1, 9, 3), {
        ...options,
        background,
        handling: 'lenient',
      })
      assert.deepEqual(
        [summary, items.map(({ status }) => status)],
        [{ total: 3, succeeded: 2, failed: 1 }, [200, 404, 200]],
      )
      assert.deepEqual([...names.values()], ['new', 'old', 'new'])
    })
  }
  test('strict changes all items or none', async (t) => {
    const { client, names } = await serve(t)
    const report = await client.bulk('/names', to('new', 1, 9, 3), { ...options, handling: 'strict' })
    assert.deepEqual(report.items.map(({ status }) => status), [424, 404, 424])
    assert.deepEqual([...names.values()], ['old', 'old', 'old'])
  })
  test('any other value is rejected', async (t) => {
    const { client } = await serve(t)
    await assert.rejects(
      client.bulk('/names', to('new', 1), { ...options, handling: 'loose' as never }),
      /handling must be/,
    )
  })
})

describe('client.bulk in the background, with a report that is not in the status', () => {
  test('reads the items of each batch, with indexes that count from the first item of the first batch', async (t) => {
    const { client, names } = await serve(t, { count: 2500, maxInlineBytes: 1000 })
    const ids = Array.from(names.keys(), (id) => (id === 1700 ? 9999 : id))
    const { summary, items } = await client.bulk('/names', to('new', ...ids), {
      ...options,
      background: true,
      handling: 'lenient',
    })
    assert.deepEqual(summary, { total: 2500, succeeded: 2499, failed: 1 })
    assert.deepEqual(
      items.map(({ index, status, id }) => [index, status, id]),
      ids.map((id, at) => [at, ...(id === 9999 ? [404, undefined] : [200, id])]),
    )
  })
  test('reads a list of items that is larger than the default of maxInlineBytes', async (t) => {
    const { client, names } = await serve(t, { count: 10_000 })
    const report = await client.bulk('/names', to('new', ...names.keys()), {
      ...options,
      background: true,
      maxItems: 10_000,
    })
    assert.deepEqual(
      [report.summary.succeeded, report.items.length, report.items.at(-1)?.index],
      [10_000, 10_000, 9999],
    )
  })
  test('reads the failed items only if the path asks for them', async (t) => {
    const { client } = await serve(t, { maxInlineBytes: 0 })
    const report = await client.bulk('/names?only=failed', to('new', 1, 9, 3), {
      ...options,
      background: true,
      handling: 'lenient',
    })
    assert.deepEqual([report.summary.total, report.items.map(({ index, status }) => [index, status])], [3, [[1, 404]]])
  })
  test('rejects with the error of a server that does not have the items', async (t) => {
    const { client } = await serve(t, { maxInlineBytes: 0, hasItems: false })
    const error = await client
      .bulk('/names', to('new', 1, 2), { ...options, background: true })
      .catch((thrown: unknown) => thrown)
    assert.ok(isBulkFailed(error))
    assert.equal((error.cause as { status?: number }).status, 404)
  })
})
