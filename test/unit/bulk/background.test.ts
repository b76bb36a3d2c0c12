import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { MemoryBlobs, memory } from '../../../adapters/memory/index.js'
import { bulkCreate, type BulkCreateOptions } from '../../../src/bulk/create.js'
import { bulkItems } from '../../../src/bulk/items.js'
import { bulkUpdate } from '../../../src/bulk/update.js'
import type { BulkItem } from '../../../src/bulk/index.js'
import { httpError } from '../../../src/http/errors.js'
import type { Handler } from '../../../src/http/exchange.js'
import type { AnyTaskDefinition } from '../../../src/tasks/definition/define.js'
import { createTasks } from '../../../src/tasks/tasks.js'
import { taskEndpoints, type TaskEndpoints } from '../../../src/tasks/http/endpoints.js'
import { ask, draft, only, people, person, Users, type Asked, type Draft, type Told, type User } from '../kit/bulk.js'

interface Status {
  readonly status: string
  readonly result?: { message: string; summary: object; items?: BulkItem[] }
  readonly error?: object
  readonly progress?: object
}

const closing: (() => Promise<unknown>)[] = []
after(async () => { for (const close of closing) await close() })

function bench(
  users: Users,
  more: Partial<Omit<BulkCreateOptions<User, Draft>, 'background'>> & {
    maxInlineBytes?: number
    blobs?: MemoryBlobs
  } = {},
) {
  const parts = memory()
  const { store, engine } = parts
  const { blobs = parts.blobs, maxInlineBytes, ...given } = more
  const bulk = bulkCreate<User, Draft>({
    repository: users,
    schema: draft,
    key: ({ email }: Draft) => email,
    onError: () => undefined,
    ...given,
    background: { name: 'create', blobs, ...(maxInlineBytes !== undefined && { maxInlineBytes }) },
  })
  const tasks = createTasks({ store, engine, definitions: [bulk.task], onError: () => undefined })
  closing.push(
    () => tasks.close(),
    () => parts.blobs.close(),
    () => store.close(),
  )
  const endpoints = taskEndpoints(tasks, {
    statusPath: '/status/{id}',
    anonymous: true,
    owner: ({ headers }) => headers['x-owner'] as string | undefined,
  })
  const handler = bulk.handler(endpoints)
  const items = bulkItems({ endpoints, blobs })
  const at = (path: string, rest: Asked = {}) => ({ method: 'GET', ...rest, path })
  return {
    tasks,
    store,
    blobs,
    handler,
    endpoints,
    send: (asked: Asked): Promise<Told> =>
      ask(handler, { ...asked, headers: { prefer: 'respond-async', ...asked.headers } }),
    items: (location: string, asked: Asked = {}): Promise<Told> =>
      ask((request) => items({ ...request, path: `${location}/items` }), { ...at(location, asked), raw: true }),
    async ended({ headers }: Told, owner?: string): Promise<Status> {
      const status: Handler = (request) => endpoints.status({ ...request, path: headers['location'] as string })
      for (;;) {
        const told = await ask(status, {
          method: 'GET',
          headers: { prefer: 'wait=20', ...(owner !== undefined && { 'x-owner': owner }) },
        })
        const shown = told.json as unknown as Status
        if (shown.status !== 'processing') return shown
      }
    },
  }
}

const linesOf = ({ text }: Told): BulkItem[] =>
  text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as BulkItem)

describe('a bulk request in the background', () => {
  test('gets a 202, a task with progress, and a result that is the report', async () => {
    const users = new Users(1)
    const { send, ended, items, blobs } = bench(users)
    const accepted = await send({ body: [...people(3), {}, person(0)] })
    assert.deepEqual([accepted.status, accepted.headers['preference-applied']], [202, 'respond-async'])
    const { status, result, progress } = await ended(accepted)
    assert.equal(status, 'completed')
    assert.equal(result?.message, '5 items: 3 created, 2 failed.')
    assert.deepEqual(
      [result.summary, result.items?.map((item) => item.status)],
      [{ total: 5, succeeded: 3, failed: 2 }, [201, 201, 201, 400, 409]],
    )
    assert.deepEqual({ ...progress }, { done: 5, total: 5, message: result.message, unit: 'items' })
    const location = accepted.headers['location'] as string
    assert.deepEqual(linesOf(await items(location)), result.items)
    const failed = await items(location, { query: 'only=failed' })
    assert.deepEqual(linesOf(failed).map(({ index }) => index), [3, 4])
    assert.equal(failed.headers['content-type'], 'application/x-ndjson')
    const part = await items(location, { headers: { range: 'bytes=10-19' } })
    assert.deepEqual([part.status, part.text], [206, (await items(location)).text.slice(10, 20)])
    assert.equal(await blobs.stat('bulk-create/x'), undefined)
  })
  test('serves its items from longhaul even if the blobs have links', async () => {
    const link = async (): Promise<string> => 'https://files.example/items'
    const blobs = Object.assign(new MemoryBlobs(), { link })
    closing.push(() => blobs.close())
    const { send, ended, items } = bench(new Users(), { blobs })
    const accepted = await send({ body: people(2) })
    await ended(accepted)
    const told = await items(accepted.headers['location'] as string)
    assert.deepEqual([told.status, linesOf(told).length], [200, 2])
  })
  test('shows a report that is too large for a status at {status}/items only', async () => {
    const { send, ended, items } = bench(new Users(), { maxInlineBytes: 100, streamAboveBytes: 1000 })
    const accepted = await send({ body: [...people(3000), {}] })
    const { result } = await ended(accepted)
    assert.deepEqual([result?.summary, result?.items], [{ total: 3001, succeeded: 3000, failed: 1 }, undefined])
    assert.match(result?.message ?? '', /Its items are at the path of this status, with \/items behind it\.$/)
    const location = accepted.headers['location'] as string
    assert.deepEqual(
      linesOf(await items(location)).map(({ index, id }) => id ?? -index),
      [...people(3000).map((_, at) => at + 1), -3000],
    )
    assert.deepEqual(linesOf(await items(location, { query: 'only=failed' })).map(({ index }) => index), [3000])
  })
  test('lists the failed items as the same lines, for any division of a large report into pieces', async () => {
    const users = new Users()
    users.fails = ({ name = '' }) => {
      if (name.endsWith('7')) throw httpError('conflict', { message: `Ein \u00fcbler Name, \u8a9e: ${name}` })
    }
    const { send, ended, items } = bench(users, {
      maxInlineBytes: 100,
      streamAboveBytes: 1000,
      repository: only(users, 'create'),
    })
    const accepted = await send({ body: people(6000) })
    assert.deepEqual((await ended(accepted)).result?.summary, { total: 6000, succeeded: 5400, failed: 600 })
    const location = accepted.headers['location'] as string
    const all = linesOf(await items(location))
    assert.deepEqual(all.map(({ index }) => index), people(6000).map((_, at) => at))
    assert.deepEqual(
      linesOf(await items(location, { query: 'only=failed' })),
      all.filter(({ error }) => error !== undefined),
    )
  })
  test('applies ?only=failed and return=minimal to the result', async () => {
    const { send, ended } = bench(new Users())
    assert.deepEqual(
      (await ended(await send({ body: [person(0), {}], query: 'only=failed' }))).result?.items?.map(
        ({ index }) => index,
      ),
      [1],
    )
    const minimal = (
      await ended(await send({ body: [person(1)], headers: { prefer: 'respond-async, return=minimal' } }))
    ).result
    assert.deepEqual([minimal?.items, minimal?.summary], [undefined, { total: 1, succeeded: 1, failed: 0 }])
  })
  test('is rejected as a whole before the 202, and leaves no blobs', async () => {
    const users = new Users()
    const { send, blobs } = bench(users, { streamAboveBytes: 1000, maxItems: 3000 })
    const text = JSON.stringify(people(3000))
    const keys = new Set<string>()
    const put = blobs.put.bind(blobs)
    blobs.put = (key, ...rest) => { keys.add(key); return put(key, ...rest) }
    for (const [body, code] of [
      [`${text.slice(0, -1)},`, 'malformed_json'],
      [people(3001), 'body_too_large'],
      [[], 'empty_batch'],
      [{}, 'invalid_input'],
    ] as const) {
      assert.equal((await send({ body })).json.code, code)
    }
    assert.equal(keys.size, 4)
    for (const key of keys) assert.equal(await blobs.stat(key), undefined)
    assert.equal(users.users.size, 0)
  })
  test('shows its items only to the owner of the task, and a 404 task_not_found to other users', async () => {
    const { send, items, ended } = bench(new Users())
    const accepted = await send({ body: people(2), headers: { 'x-owner': 'ann' } })
    await ended(accepted, 'ann')
    const location = accepted.headers['location'] as string
    assert.equal((await items(location, { headers: { 'x-owner': 'ann' } })).status, 200)
    const strange = await items(location, { headers: { 'x-owner': 'bob' } })
    const unknown = await items('/status/nothing', { headers: { 'x-owner': 'bob' } })
    assert.deepEqual([strange.status, strange.text, strange.headers], [404, unknown.text, unknown.headers])
    assert.equal(strange.json.code, 'task_not_found')
  })
  test('reports the processed items after a cancel, and shows no items before its end', async () => {
    const users = new Users()
    let begun: () => void = () => undefined
    const first = new Promise<void>((resolve) => { begun = resolve })
    const repository = { create: async (its: Draft, { signal }: { signal: AbortSignal }): Promise<User> => {
      if (users.users.size === 2) {
        begun()
        await new Promise((resolve) => { signal.addEventListener('abort', resolve) })
      }
      return users.put(its)
    } }
    const { send, items, tasks } = bench(users, { repository, concurrency: 1 })
    const accepted = await send({ body: people(5) })
    const location = accepted.headers['location'] as string
    await first
    assert.deepEqual([(await items(location)).status, (await items(location)).json.code], [409, 'task_not_final'])
    await tasks.cancel(location.slice('/status/'.length))
    let told = await items(location)
    while (told.status !== 200) {
      await new Promise((resolve) => setTimeout(resolve, 5))
      told = await items(location)
    }
    assert.deepEqual(linesOf(told).map(({ status }) => status), [201, 201, 201, 424, 424])
    assert.equal(users.users.size, 3)
  })
  test('has changed nothing if it is atomic and was stopped, and its result says so', async () => {
    const users = new Users(1)
    const { send, ended, items } = bench(users, { atomic: true, streamAboveBytes: 1000, maxInlineBytes: 10 })
    const accepted = await send({ body: [...people(2500), { name: 'x', email: 'user-1@example.com' }] })
    const { status, result } = await ended(accepted)
    assert.deepEqual(
      [status, result?.summary, users.users.size],
      ['completed', { total: 2501, succeeded: 0, failed: 2501 }, 1],
    )
    const lines = linesOf(await items(accepted.headers['location'] as string))
    assert.deepEqual(
      lines.map(({ index, status: its }) => [index, its]),
      [...people(2500).map((_, at) => [at, 424]), [2500, 409]],
    )
  })
  test('continues although its report cannot be stored, and the message says so', async () => {
    const users = new Users()
    const blobs = new MemoryBlobs()
    const { send, ended } = bench(users, { blobs, maxInlineBytes: 10 })
    const put = blobs.put.bind(blobs)
    blobs.put = (key, ...rest) => (key.endsWith('/1/0') ? Promise.reject(new Error('full')) : put(key, ...rest))
    const { result } = await ended(await send({ body: people(3) }))
    assert.deepEqual(
      [result?.message, users.users.size],
      ['3 items: 3 created, 0 failed. Its items could not be stored.', 3],
    )
  })
})

describe('the Idempotency-Key of a bulk request', () => {
  const headers = { 'idempotency-key': '"k1"' }
  test('gets the same response for a retry, which writes nothing, and another body is rejected', async () => {
    const users = new Users()
    const { handler } = bench(users)
    const first = await ask(handler, { body: [person(0), {}], headers })
    const again = await ask(handler, { body: [person(0), {}], headers })
    assert.deepEqual(
      [again.status, again.text, again.headers['idempotent-replayed'], users.users.size],
      [207, first.text, 'true', 1],
    )
    const other = await ask(handler, { body: [person(1)], headers })
    assert.deepEqual([other.status, other.json.code, users.users.size], [422, 'idempotency_key_reused', 1])
    const refusal = await ask(handler, { body: [{}], headers: { 'idempotency-key': 'k2' } })
    const refusedAgain = await ask(handler, { body: [{}], headers: { 'idempotency-key': 'k2' } })
    assert.deepEqual([refusedAgain.status, refusedAgain.text], [422, refusal.text])
    assert.equal(
      (await ask(handler, { body: [{}], headers: { 'idempotency-key': 'a b' } })).json.code,
      'invalid_idempotency_key',
    )
  })
  test('makes a retry wait for the first request, which continues after its client has disconnected', async () => {
    const users = new Users()
    const gone = new AbortController()
    let release: () => void = () => undefined
    let begun: () => void = () => undefined
    const first = new Promise<void>((resolve) => { begun = resolve })
    const held = new Promise<void>((resolve) => { release = resolve })
    const repository = { create: async (its: Draft): Promise<User> => {
      begun()
      await held
      return users.put(its)
    } }
    const { handler, store } = bench(users, { repository, concurrency: 1 })
    const answer = ask(handler, { body: people(3), headers, signal: gone.signal })
    await first
    const early = ask(handler, { body: people(3), headers })
    while (store.usage().watches === 0) await new Promise(setImmediate)
    gone.abort()
    release()
    assert.equal((await answer).status, 201)
    assert.deepEqual(
      [(await early).status, (await early).text, (await early).headers['idempotent-replayed']],
      [201, (await answer).text, 'true'],
    )
    assert.deepEqual(
      [(await ask(handler, { body: people(3), headers })).json.summary, users.users.size],
      [{ total: 3, succeeded: 3, failed: 0 }, 3],
    )
  })
  test('means the same batch with and without respond-async, and the first request decides the kind of response', async () => {
    const users = new Users()
    const { handler, send, ended } = bench(users)
    const direct = await ask(handler, { body: people(3), headers })
    const again = await send({ body: people(3), headers })
    assert.deepEqual([again.status, again.text, again.headers['idempotent-replayed']], [201, direct.text, 'true'])
    const second = { 'idempotency-key': 'k2' }
    const task = await send({ body: [person(7)], headers: second })
    await ended(task)
    const late = await ask(handler, { body: [person(7)], headers: second })
    assert.deepEqual([late.status, late.headers['location'], users.users.size], [202, task.headers['location'], 4])
  })
  test('is free after a batch that was rejected as a whole, and works for a large body', async () => {
    const users = new Users()
    const { handler, send, ended } = bench(users, { streamAboveBytes: 1000 })
    assert.equal((await ask(handler, { body: [], headers })).json.code, 'empty_batch')
    assert.equal((await ask(handler, { body: [person(0)], headers })).status, 201)
    const large = { body: people(2000), headers: { 'idempotency-key': 'k3' } }
    const [direct, same] = [await ask(handler, large), await ask(handler, large)]
    assert.deepEqual(
      [direct.status, same.text, same.headers['idempotent-replayed'], users.users.size],
      [207, direct.text, 'true', 2000],
    )
    assert.equal((await ask(handler, { ...large, body: people(1999) })).json.code, 'idempotency_key_reused')
    assert.equal((await send(large)).text, direct.text)
    const one = await send({ body: people(2000), headers: { 'idempotency-key': 'k4' } })
    const two = await send({ body: people(2000), headers: { 'idempotency-key': 'k4' } })
    assert.equal(one.headers['location'], two.headers['location'])
    await ended(one)
    assert.equal(users.users.size, 2000)
  })
})

test('endpoints that do not fit the bulk task are rejected at construction', () => {
  const users = new Users()
  const { store, engine, blobs } = memory()
  const create = bulkCreate<User, Draft>({ repository: users, background: { name: 'create', blobs } })
  const update = bulkUpdate<{ id: number }, object, number>({
    repository: { update: () => undefined },
    id: ({ id }) => id,
    change: () => ({}),
    background: { name: 'create', blobs },
  })
  const endpointsOf = (definitions: readonly AnyTaskDefinition[], maxResultBytes = 1_048_576): TaskEndpoints => {
    const tasks = createTasks({ store, engine: memory().engine, definitions, maxResultBytes })
    closing.push(() => tasks.close())
    return taskEndpoints(tasks, { statusPath: '/s/{id}', owner: 'anyone' })
  }
  const shared = <T extends object>(made: T): T => Object.create(made, { shared: { value: true } }) as T
  assert.throws(() => create.handler(endpointsOf([])), /not among the definitions/)
  assert.throws(() => create.handler(endpointsOf([update.task])), /not among the definitions/)
  assert.throws(() => create.handler(endpointsOf([create.task], 1000)), /maxInlineBytes/)
  assert.throws(
    () => createTasks({ store: shared(store), engine: shared(engine), definitions: [create.task] }),
    /blobs for one/,
  )
})
