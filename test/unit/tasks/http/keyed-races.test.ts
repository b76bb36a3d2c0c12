// A synchronous and a background request with the same Idempotency-Key at the same moment.
import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { memory } from '../../../../adapters/memory/index.js'
import { bulkCreate } from '../../../../src/bulk/create.js'
import { ndjsonUpload } from '../../../../src/ndjson/upload.js'
import { taskEndpoints } from '../../../../src/tasks/http/endpoints.js'
import { createTasks } from '../../../../src/tasks/tasks.js'
import { ask } from '../../kit/bulk.js'

const KINDS = {
  bulk: ['application/json', '[{"n":1},{"n":2}]'],
  ndjson: ['application/x-ndjson', '{"n":1}\n{"n":2}\n'],
} as const

/**
 * Endpoints whose engine and store make no write until both requests have looked for the key, and
 * then take a while for it.
 */
function open(t: TestContext, kind: keyof typeof KINDS, delays: { engine: number, store: number }) {
  const { engine, store, blobs } = memory()
  let begin = (): void => undefined
  const bothHaveLooked = new Promise<void>((resolve) => { begin = resolve })
  const looked = new Set<string>()
  const look = (where: string): void => {
    if (looked.add(where).size === 2) begin()
  }
  const { create: createTask, readByKey } = engine
  engine.readByKey = async (...args) => {
    const task = await readByKey.apply(engine, args)
    look('engine')
    return task
  }
  engine.create = async (...args) => {
    await Promise.race([bothHaveLooked, sleep(100)])
    await sleep(delays.engine)
    return createTask.apply(engine, args)
  }
  const { create: createEntry, get } = store
  store.get = async (key) => {
    const entry = await get.call(store, key)
    if (/^idempotency:[^:]+$/.test(key)) look('store')
    return entry
  }
  store.create = async (...args) => {
    if (args[0].startsWith('idempotency:')) {
      await Promise.race([bothHaveLooked, sleep(100)])
      await sleep(delays.store)
    }
    return createEntry.apply(store, args)
  }
  const written: unknown[] = []
  const write = (records: readonly object[]): void => { written.push(...records) }
  const background = { name: 'work', blobs }
  const work = kind === 'bulk'
    ? bulkCreate({ repository: { createMany: (records: readonly object[]) => (write(records), records) }, background })
    : ndjsonUpload({ write, background })
  const tasks = createTasks({ engine, store, definitions: [work.task] })
  t.after(async () => {
    await tasks.close({ drainMs: 0 })
    await blobs.close()
    await store.close()
  })
  const handler = work.handler(taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' }))
  const [type, body] = KINDS[kind]
  const send = (headers: Record<string, string> = {}, more = '') => ask(handler, {
    body: body + more, headers: { 'content-type': type, 'idempotency-key': '"key"', ...headers },
  })
  /** Resolves when no task is left that is not final. */
  const settled = async (): Promise<void> => {
    for (const { taskId: id } of (await tasks.list()).items) await tasks.wait(id, { timeoutMs: 60_000 })
  }
  return { tasks, written, send, settled }
}

for (const kind of ['bulk', 'ndjson'] as const) {
  describe(`${kind}: two requests with one key, one of them for the background`, () => {
    const orders = { 'the same delays': [5, 5], 'a slow engine': [30, 1], 'a slow store': [1, 30] } as const
    for (const [name, [engine, store]] of Object.entries(orders)) {
      test(`do the work once, with ${name}`, async (t) => {
        const { written, send, settled } = open(t, kind, { engine, store })
        const answers = await Promise.all([send(), send({ prefer: 'respond-async' })])
        await settled()
        assert.deepEqual(written, [{ n: 1 }, { n: 2 }])
        for (const { status } of answers) assert.ok([200, 201, 202, 409].includes(status), String(status))
        assert.ok(answers.some(({ status }) => status !== 409))
        const [direct, later] = [await send(), await send({ prefer: 'respond-async' })]
        assert.deepEqual([direct.status, later.status], [later.status, direct.status], 'later ones get the same')
        await settled()
        assert.deepEqual(written, [{ n: 1 }, { n: 2 }])
      })
    }

    test('get a 422 if their bodies differ, or the task fails with the same code', async (t) => {
      const { tasks, written, send, settled } = open(t, kind, { engine: 5, store: 5 })
      const more = kind === 'bulk' ? ' ' : '{"n":3}\n'
      const answers = await Promise.all([send(), send({ prefer: 'respond-async' }, more)])
      await settled()
      const statuses = answers.map(({ status }) => status)
      const [end] = (await tasks.list()).items
      const code = end?.status === 'failed' ? end.error.code : undefined
      if (kind === 'ndjson') assert.ok(statuses.includes(422) || code === 'idempotency_key_reused', String(statuses))
      assert.ok(written.length === 2 || (kind === 'ndjson' && written.length === 3), JSON.stringify(written))
    })

    test('in the background get the same task', async (t) => {
      const { written, send, settled } = open(t, kind, { engine: 5, store: 5 })
      const prefer = 'respond-async'
      const answers = await Promise.all([send({ prefer }), send({ prefer }), send({ prefer })])
      await settled()
      assert.deepEqual(answers.map(({ status }) => status), [202, 202, 202])
      assert.equal(new Set(answers.map(({ headers }) => headers['location'])).size, 1)
      assert.deepEqual(written, [{ n: 1 }, { n: 2 }])
    })
  })
}
