import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { memory } from '../../../adapters/memory/index.js'
import { callbacks } from '../../../src/callbacks/index.js'
import type { Changed, Expected, StoredTask, TaskChange, TaskQuery, TaskRef } from '../../../src/engine/index.js'
import {
  createTasks, defineTask, httpError, HttpError, jobFormat, router, taskEndpoints, type HttpRequest,
} from '../../../src/index.js'
import {
  operatorEndpoints, retryTasks, type OperatorEndpointsOptions, type RetryReport,
} from '../../../src/operators/index.js'
import { partialResults } from '../../../src/partial/index.js'
import { authenticate, bearer, tokens } from '../../../src/policies/index.js'
import type { MaybePromise } from '../../../src/runtime/maybe-promise.js'
import { StoreUnavailableError } from '../../../src/stores/index.js'
import { inject } from '../../../src/testing/index.js'
import { eventually } from '../../kit/wait.js'

const root = { context: { user: { role: 'admin' } } }
const ann = { context: { user: { role: 'customer' } } }

type OwnOptions = Partial<Omit<OperatorEndpointsOptions, 'cancels' | 'forgets'>>

function setUp(t: TestContext, options: OwnOptions = {}, maxUnfinished = 1000) {
  const parts = memory({ maxUnfinished })
  const words = partialResults<string>({ store: parts.store })
  const runs = new Map<string, number>()
  const report = defineTask({
    name: 'report', files: true, external: words.external,
    run: words.run(async ({ fails }: { fails?: boolean }, { taskId = '', files, emit }) => {
      runs.set(taskId, (runs.get(taskId) ?? 0) + 1)
      if (fails) throw new HttpError(422, 'no_paper', { message: 'There is no paper.' })
      await files.write('a.txt', 'hello')
      await emit('word')
      return { text: 'secret' }
    }),
  })
  const one = defineTask({
    name: 'one', maxPerOwner: 1,
    run: (_input: object, { attempt }) => {
      if (attempt > 1) return new Promise(() => undefined)
      throw httpError('conflict')
    },
  })
  const away = { is: false }
  const remote = defineTask({
    name: 'remote', external: { of: () => 'bucket', release: () => undefined, renew: async () => {
      if (away.is) throw new StoreUnavailableError('The bucket is away')
      return true
    } },
    run: (_input: object) => { throw httpError('conflict') },
  })
  const slow = defineTask({ name: 'slow', run: (_input: object) => new Promise(() => undefined) })
  const retries = retryTasks()
  const errors: unknown[] = []
  const tasks = createTasks({
    ...parts,
    definitions: [report, one, remote, slow, retries],
    concurrency: 3,
    maxWaiters: 100,
    onError: (error) => {
      errors.push(error)
    },
    callbacks: callbacks({
      secrets: () => ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'],
      attempts: 1,
      sender: { check: () => undefined, send: async () => ({ status: 200 }) },
    }),
  })
  t.after(() => tasks.close({ drainMs: 0 }))
  const operators = operatorEndpoints(tasks, {
    statusPath: '/admin/tasks/{id}',
    operator: ({ context }) => context.user?.role === 'admin',
    remove: 'forget',
    retries,
    ...options,
  })
  const own = taskEndpoints(tasks, {
    statusPath: '/tasks/{id}',
    owner: ({ headers }: HttpRequest) => headers['x-user'] as string | undefined,
    anonymous: true,
  })
  const site = router<{ user?: unknown }>({
    'GET|HEAD /admin/tasks': operators.list,
    'GET|HEAD /admin/overview': operators.overview,
    'POST /admin/tasks/retry': operators.retryMany,
    'GET|HEAD|DELETE /admin/tasks/{id}': operators.status,
    'POST /admin/tasks/{id}/retry': operators.retry,
    'POST /admin/tasks/{id}/callback': operators.callback,
    'GET|HEAD /admin/tasks/{id}/files/{name}': operators.files,
    'GET|HEAD /admin/tasks/{id}/partial-results': words.endpoint(operators),
    'GET /tasks/{id}': own.status, 'GET /tasks': own.list, 'POST /tasks/{id}/callback': own.callback,
  })
  const ask = (method: string, path: string, more: object = {}) => inject(site, { method, path, ...root, ...more })
  const end = async (
    owner: string | undefined,
    input: { fails?: boolean } = {},
    more: { callbackUrl?: string } = {},
  ) => {
    const task = await tasks.ownedBy(owner).submit(report, input, more)
    await task.wait({ timeoutMs: 60_000 })
    return task.taskId
  }
  const retryMany = async (query: string) => {
    const accepted = await ask('POST', `/admin/tasks/retry${query}`)
    assert.equal(accepted.status, 202, await accepted.text())
    const id = String(accepted.headers['location']).replace('/admin/tasks/', '')
    const task = await tasks.get(id, retries)
    return {
      id,
      task,
      result: async () => ((await tasks.wait(id, { timeoutMs: 60_000 })) as { result?: RetryReport }).result,
    }
  }
  /** Calls `act` around each page of tasks to retry. */
  const aroundPages = (
    act: (list: () => MaybePromise<readonly StoredTask[]>) => MaybePromise<readonly StoredTask[]>,
  ) => {
    const list = parts.engine.list.bind(parts.engine)
    t.mock.method(parts.engine, 'list', (query: TaskQuery) =>
      query.limit === 64 ? act(() => list(query)) : list(query),
    )
  }
  return {
    aroundPages,
    engine: parts.engine,
    tasks,
    away,
    remote,
    report,
    one,
    slow,
    retries,
    runs,
    errors,
    own,
    site,
    ask,
    end,
    retryMany,
  }
}

interface Body { items: { taskId: string, owner?: string }[], next?: string }
const idsOf = ({ items }: Body) => items.map(({ taskId }) => taskId)

describe('operatorEndpoints', () => {
  test('lists the tasks of all owners, or of one owner', async (t) => {
    const { ask, end, own } = setUp(t)
    const [one, two, host] = [await end('ann'), await end('bob', { fails: true }), await end(undefined)]
    const list = async (query: string) => (await ask('GET', `/admin/tasks${query}`)).json<Body>()
    const { items } = await list('')
    assert.deepEqual(
      new Map(items.map(({ taskId, owner }) => [taskId, owner])),
      new Map<unknown, unknown>([
        [one, 'ann'],
        [two, 'bob'],
        [host, undefined],
      ]),
    )
    assert.deepEqual(idsOf(await list('?owner=bob')), [two])
    assert.deepEqual(idsOf(await list('?owner=ann&status=failed')), [])
    const { next = '' } = await list('?limit=1')
    const cursor = new URLSearchParams(next.split('?')[1]).get('cursor')
    assert.equal((await ask('GET', `/admin/tasks?owner=ann&cursor=${cursor}`)).status, 400)
    assert.equal(
      (await inject(own.list, { path: `/tasks?cursor=${cursor}`, headers: { 'x-user': 'ann' } })).status,
      400,
      'a cursor of an operator',
    )
    for (const query of ['?owner=', `?owner=${'x'.repeat(513)}`, '?owner=%00', '?who=ann'])
      assert.equal((await ask('GET', `/admin/tasks${query}`)).status, 400, query)
  })

  test('shows a task of another owner with its owner, its events, its files and its partial results', async (t) => {
    const { ask, end } = setUp(t)
    const id = await end('ann')
    const shown = await (
      await ask('GET', `/admin/tasks/${id}`)
    ).json<{ owner: string; files: { url: string }[]; result: object }>()
    assert.deepEqual(
      [shown.owner, shown.result, shown.files[0]?.url],
      ['ann', { text: 'secret' }, `/admin/tasks/${id}/files/a.txt`],
    )
    const events = await (await ask('GET', `/admin/tasks/${id}`, { headers: { accept: 'text/event-stream' } })).text()
    assert.match(events, /"owner":"ann"/)
    assert.equal(await (await ask('GET', `/admin/tasks/${id}/files/a.txt`)).text(), 'hello')
    const { results } = await (
      await ask('GET', `/admin/tasks/${id}/partial-results`)
    ).json<{ results: { value: string }[] }>()
    assert.deepEqual(results.map(({ value }) => value), ['word'])
    const polled = await ask('GET', `/admin/tasks/${id}`, { headers: { prefer: 'wait=1' } })
    assert.deepEqual(
      [polled.headers['preference-applied'], (await polled.json<Body & { owner: string }>()).owner],
      ['wait=1', 'ann'],
    )
    assert.equal((await ask('GET', '/admin/tasks/unknown')).status, 404)
  })

  test('cancels, retries and deletes a task of another owner, and sends its callback again', async (t) => {
    const { ask, end, tasks, report, slow, runs } = setUp(t)
    const { taskId } = await tasks.ownedBy('ann').submit(slow, {})
    assert.equal((await (await ask('DELETE', `/admin/tasks/${taskId}`)).json<{ status: string }>()).status, 'cancelled')
    const failed = await end('ann', { fails: true }, { callbackUrl: 'https://example.com/' })
    await eventually(async () => (await tasks.get(failed))?.callback?.state === 'delivered')
    assert.equal((await ask('POST', `/admin/tasks/${failed}/callback`)).status, 202)
    await eventually(async () => (await tasks.get(failed))?.callback?.attempts === 2)
    // A framework has authenticated the operator, and there is no principal.
    const headers = { 'idempotency-key': 'k1' }
    const retried = await ask('POST', `/admin/tasks/${failed}/retry`, { headers })
    const again = await ask('POST', `/admin/tasks/${failed}/retry`, { headers })
    assert.deepEqual([retried.status, again.status, again.headers['idempotent-replayed']], [202, 202, 'true'])
    await eventually(async () => runs.get(failed) === 2 && (await tasks.get(failed))?.status === 'failed')
    const etag = String((await ask('GET', `/admin/tasks/${failed}`)).headers['etag'])
    assert.deepEqual(
      [
        (await ask('DELETE', `/admin/tasks/${failed}`, { headers: { 'if-match': etag } })).status,
        await tasks.get(failed, report),
      ],
      [204, undefined],
    )
  })

  test('shows no task of another owner that gets the same id while a callback is sent', async (t) => {
    const { site, end, tasks, report, engine } = setUp(t)
    const id = await end('ann', { fails: true }, { callbackUrl: 'https://example.com/' })
    await eventually(async () => (await tasks.get(id))?.callback?.state === 'delivered')
    const change = engine.change.bind(engine)
    t.mock.method(engine, 'change', async (ref: TaskRef, expected: Expected, made: TaskChange): Promise<Changed> => {
      const changed = await change(ref, expected, made)
      if (made.callbackMs !== 0) return changed
      await tasks.delete(id)
      await tasks.ownedBy('bob').submit(report, {}, { id })
      return changed
    })
    const response = await inject(site, { method: 'POST', path: `/tasks/${id}/callback`, headers: { 'x-user': 'ann' } })
    assert.deepEqual([response.status, (await response.json<{ status: string }>()).status], [202, 'failed'])
  })

  test('rejects all other users with 403, or with 401 if there is no user, before it reads a task or a body', async (t) => {
    const { site, end, tasks } = setUp(t)
    const id = await end('ann', { fails: true })
    const before = await tasks.get(id)
    const requests = [
      ['GET', '/admin/tasks'],
      ['GET', '/admin/tasks?bad=1'],
      ['GET', '/admin/overview'],
      ['POST', '/admin/tasks/retry'],
      ['POST', '/admin/tasks/retry?bad=1'],
      ...[id, 'unknown'].flatMap((each) => [
        ['GET', `/admin/tasks/${each}`],
        ['DELETE', `/admin/tasks/${each}`],
        ['POST', `/admin/tasks/${each}/retry`],
        ['POST', `/admin/tasks/${each}/callback`],
        ['GET', `/admin/tasks/${each}/files/a.txt`],
        ['GET', `/admin/tasks/${each}/partial-results`],
      ]),
    ] as const
    for (const [method = '', path = ''] of requests) {
      const refused = await inject(site, { method, path, ...ann, ...method === 'POST' && { body: 'not JSON' } })
      assert.deepEqual([refused.status, await refused.json()], [
        403, { error: 'You are not allowed to do this.', code: 'forbidden', reason: 'operators_only' },
      ], `${method} ${path}`)
      assert.equal((await inject(site, { method, path })).status, 401, path)
    }
    assert.deepEqual(await tasks.get(id), before)
  })

  test('has its own owner, which neither a client nor the application can have', async (t) => {
    const { ask, tasks, errors } = setUp(t)
    const response = await ask('GET', '/tasks', {
      headers: { 'x-user': 'longhaul:operators' },
      onError: (error: unknown) => {
        errors.push(error)
      },
    })
    assert.equal(response.status, 500)
    assert.match(String(errors.at(-1)), /owner must not be longhaul:operators/)
    assert.throws(() => tasks.ownedBy('longhaul:operators'), TypeError)
  })

  test('accepts only true as the result of operator, and passes on its errors', async (t) => {
    for (const [operator, status] of [
      [() => 'yes', 403],
      [() => undefined, 403],
      [async () => Promise.resolve(false), 403],
      [async () => Promise.resolve(true), 200],
      [
        () => {
          throw httpError('too_many_requests')
        },
        429,
      ],
    ] as [never, number][]) {
      assert.equal((await setUp(t, { operator }).ask('GET', '/admin/tasks')).status, status)
    }
  })

  test('works behind authenticate, with the principal', async (t) => {
    const { tasks } = setUp(t)
    interface Member { readonly subject: string, readonly role: string }
    const verify = tokens<Member>({
      'a-secret': { subject: 'root', role: 'admin' },
      'b-secret': { subject: 'ann', role: 'customer' },
    })
    const { list } = operatorEndpoints(tasks, {
      statusPath: '/admin/tasks/{id}',
      operator: ({ context }: HttpRequest<{ principal?: Member }>) => context.principal?.role === 'admin',
    })
    const policy = authenticate<Member, { principal?: Member }>({ schemes: [bearer({ verify })], optional: true })
    const status = async (token: string) => {
      const response = await inject<{ principal?: Member }>((request) => policy(request, list), {
        path: '/',
        headers: { authorization: `Bearer ${token}` },
      })
      return [response.status, response.headers['www-authenticate'] !== undefined]
    }
    assert.deepEqual(
      [await status('a-secret'), await status('b-secret'), await status('c')],
      [
        [200, false],
        [403, false],
        [401, true],
      ],
    )
  })

  test('shows tasks in another format', async (t) => {
    const { ask, end, retryMany } = setUp(t, { format: jobFormat })
    const id = await end('ann', { fails: true })
    const job = await (
      await ask('GET', `/admin/tasks/${id}`)
    ).json<{ id: string; owner: string; state: string; statusUrl: string }>()
    assert.deepEqual([job.id, job.owner, job.state, job.statusUrl], [id, 'ann', 'failed', `/admin/tasks/${id}`])
    assert.equal((await (await retryMany('?status=failed,cancelled')).result())?.retried, 1)
  })

  test('counts the streams of operators separately from those of owners', async (t) => {
    const { ask, end, site, tasks, slow } = setUp(t)
    const done = await end('ann')
    const { taskId, cancel } = await tasks.ownedBy('ann').submit(slow, {})
    const accept = { accept: 'text/event-stream' }
    for (const path of [`/admin/tasks/${taskId}`, `/admin/tasks/${done}/partial-results`]) {
      const streams = await Promise.all(Array.from({ length: 10 }, () => ask('GET', path, { headers: accept })))
      const own = await inject(site, { path: `/tasks/${taskId}`, headers: { ...accept, 'x-user': 'ann' } })
      const further = await ask('GET', path, { headers: accept })
      assert.deepEqual(
        [new Set(streams.map(({ status }) => status)), own.status, further.status],
        [new Set([200]), 200, 429],
        path,
      )
      const polled = await inject(site, { path: `/tasks/${taskId}`, headers: { 'prefer': 'wait=1', 'x-user': 'ann' } })
      assert.equal(polled.headers['preference-applied'], 'wait=1')
      if (path.endsWith(taskId)) await cancel()
      await Promise.all([own, ...streams].map((response) => response.text()))
    }
  })

  test('explains what is wrong with its options', (t) => {
    const { tasks } = setUp(t)
    const good = { statusPath: '/admin/{id}', operator: () => true }
    assert.throws(() => operatorEndpoints(tasks, { statusPath: '/admin/{id}' } as never), {
      name: 'TypeError',
      message: /operatorEndpoints: the option operator is missing/,
    })
    assert.throws(
      () => operatorEndpoints(tasks, { ...good, statusPath: '/admin' }),
      /operatorEndpoints: statusPath must be a path with one \{id\}/,
    )
    assert.throws(
      () => operatorEndpoints(tasks, { ...good, remove: 'all' as never }),
      /operatorEndpoints: remove must be/,
    )
    assert.throws(
      () => operatorEndpoints(tasks, { ...good, retries: retryTasks({ name: 'others' }) }),
      /others is not among the definitions of createTasks; add it there/,
    )
    assert.throws(() => operatorEndpoints(tasks, good).retryMany, /retryMany needs the option retries/)
    assert.throws(() => operatorEndpoints({} as never, good), /operatorEndpoints: pass what createTasks returned/)
  })
})

describe('retryMany', () => {
  test('retries the tasks that match the filter, in a task that operators see', async (t) => {
    const { end, retryMany, tasks, runs, ask, site } = setUp(t)
    const anyone = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
    const [first, , bob] = [await end('ann', { fails: true }), await end('ann'), await end('bob', { fails: true })]
    const from = new Date((await tasks.get(bob))?.createdAt ?? 0).toISOString()
    assert.deepEqual(await (await retryMany('?owner=ann&task=report')).result(), {
      retried: 1,
      failed: 0,
      failures: [],
    })
    await eventually(() => runs.get(first) === 2)
    assert.equal(runs.get(bob), 1)
    const { id, result } = await retryMany(`?from=${from}&status=failed,cancelled`)
    assert.equal((await result())?.retried, 1)
    await eventually(() => runs.get(bob) === 2)
    assert.equal((await (await ask('GET', `/admin/tasks/${id}`)).json<{ owner: string }>()).owner, 'longhaul:operators')
    assert.equal((await inject(anyone.status, { path: `/tasks/${id}` })).status, 404)
    for (const user of ['ann', 'root']) {
      assert.equal((await inject(site, { path: `/tasks/${id}`, headers: { 'x-user': user } })).status, 404)
      assert.ok(
        !idsOf(await (await inject(site, { path: '/tasks', headers: { 'x-user': user } })).json<Body>()).includes(id),
      )
    }
  })

  test('counts tasks that cannot be retried, with their codes', async (t) => {
    const { retryMany, tasks, one } = setUp(t)
    for (let n = 0; n < 3; n++) await (await tasks.ownedBy('ann').submit(one, {})).wait({ timeoutMs: 60_000 })
    const result = await (await retryMany('?task=one')).result()
    assert.deepEqual([result?.retried, result?.failed], [1, 2])
    assert.deepEqual(result?.failures.map(({ code }) => code), ['too_many_tasks', 'too_many_tasks'])
  })

  test('waits for space in a full queue', async (t) => {
    const { retryMany, end, tasks, slow, runs } = setUp(t, {}, 4)
    const ids = [await end('ann', { fails: true }), await end('bob', { fails: true })]
    const fillers = []
    for (let n = 0; n < 3; n++) fillers.push(await tasks.submit(slow, {}, { delayMs: 3_600_000 }))
    const { id, result } = await retryMany('')
    await eventually(async () => ((await tasks.get(id))?.attempt ?? 0) > 1)
    assert.ok(ids.every((each) => runs.get(each) === 1))
    for (const { cancel } of fillers) await cancel()
    await eventually(() => ids.every((each) => runs.get(each) === 2), 10_000)
    assert.deepEqual(await result(), { retried: 2, failed: 0, failures: [] })
  })

  test('does not retry a task that its owner has retried or deleted after it was listed', async (t) => {
    const { retryMany, end, tasks, report, runs, aroundPages } = setUp(t)
    const [first, second] = [await end('ann', { fails: true }), await end('ann', { fails: true })]
    aroundPages(async (list) => {
      const page = await list()
      await tasks.ownedBy('ann').retry(first)
      await eventually(async () => runs.get(first) === 2 && (await tasks.get(first))?.status === 'failed')
      await tasks.ownedBy('ann').delete(second)
      const { wait } = await tasks.ownedBy('bob').submit(report, { fails: true }, { id: second })
      await wait({ timeoutMs: 60_000 })
      return page
    })
    const { retried, failures } = await (await retryMany('?task=report')).result() ?? {}
    assert.deepEqual([retried, new Map(failures?.map(({ taskId, code }) => [taskId, code]))], [
      0, new Map([[first, 'conflict'], [second, 'task_not_found']]),
    ])
    assert.deepEqual([runs.get(first), runs.get(second)], [2, 2])
  })

  test('retries a task whose callback was delivered after it was listed', async (t) => {
    const { retryMany, end, tasks, runs, aroundPages } = setUp(t)
    const id = await end('ann', { fails: true }, { callbackUrl: 'https://example.com/' })
    await eventually(async () => (await tasks.get(id))?.callback?.state === 'delivered')
    aroundPages(async (list) => {
      const page = await list()
      await tasks.redeliver(id)
      await eventually(async () => (await tasks.get(id))?.callback?.attempts === 2)
      return page
    })
    assert.deepEqual(await (await retryMany('')).result(), { retried: 1, failed: 0, failures: [] })
    await eventually(() => runs.get(id) === 2)
  })

  test('retries a task whose callback is delivered during the retry', async (t) => {
    const { retryMany, end, tasks, runs, engine } = setUp(t)
    const id = await end('ann', { fails: true }, { callbackUrl: 'https://example.com/' })
    await eventually(async () => (await tasks.get(id))?.callback?.state === 'delivered')
    const change = engine.change.bind(engine)
    let isFirst = true
    t.mock.method(engine, 'change', async (ref: TaskRef, expected: Expected, made: TaskChange): Promise<Changed> => {
      if (ref.id === id && made.status === 'queued' && isFirst) {
        isFirst = false
        await tasks.redeliver(id)
        await eventually(async () => (await tasks.get(id))?.callback?.attempts === 2)
      }
      return change(ref, expected, made)
    })
    assert.deepEqual(await (await retryMany('')).result(), { retried: 1, failed: 0, failures: [] })
    await eventually(() => runs.get(id) === 2)
  })

  test('counts each task once, even if the queue is full and tasks are deleted meanwhile', async (t) => {
    const { retryMany, end, tasks, runs, engine } = setUp(t)
    for (let n = 0; n < 12; n++) await end('ann', { fails: true })
    const ids = (await tasks.list({ order: 'oldest' })).items.map(({ taskId }) => taskId)
    const change = engine.change.bind(engine)
    const full = new Set([ids[2]])
    t.mock.method(engine, 'change', (ref: TaskRef, expected: Expected, made: TaskChange): MaybePromise<Changed> => (
      full.has(ref.id) ? { outcome: 'full' } : change(ref, expected, made)
    ))
    const { id, result } = await retryMany('')
    await eventually(async () => {
      const task = await tasks.get(id)
      return task?.attempt === 1 && task.status === 'queued'
    })
    assert.equal((await tasks.get(id))?.progress?.done, 7)
    await eventually(async () => runs.get(ids[7] ?? '') === 2 && (await tasks.get(ids[7] ?? ''))?.status === 'failed')
    for (const each of [0, 1, 7]) await tasks.ownedBy('ann').delete(ids[each] ?? '')
    full.clear()
    assert.deepEqual(await result(), { retried: 12, failed: 0, failures: [] })
    await eventually(() => ids.every((each) => runs.get(each) === 2))
  })

  test('retries other tasks if a resource of one task is unavailable, and continues later if the engine is unavailable', async (t) => {
    const { retryMany, end, tasks, remote, away, runs, errors, engine } = setUp(t)
    const { taskId, wait } = await tasks.submit(remote, {})
    await wait({ timeoutMs: 60_000 })
    const ids = [await end('ann', { fails: true }), await end('bob', { fails: true })]
    away.is = true
    assert.deepEqual(await (await retryMany('')).result(), {
      retried: 2,
      failed: 1,
      failures: [{ taskId, code: 'store_unavailable' }],
    })
    assert.match(String((errors.at(-1) as Error).cause), /The bucket is away/)
    away.is = false
    await eventually(async () => (await tasks.list({ status: ['queued', 'processing'] })).items.length === 0)
    const read = engine.read.bind(engine)
    let isAway = true
    t.mock.method(engine, 'read', async (id: string) => {
      if (isAway && id === ids[1]) throw new StoreUnavailableError('The engine is away')
      return read(id)
    })
    const { id, result } = await retryMany('')
    await eventually(async () => (await tasks.get(id))?.attempt === 2)
    isAway = false
    assert.deepEqual(await result(), { retried: 3, failed: 0, failures: [] })
    await eventually(() => ids.every((each) => runs.get(each) === 3))
  })

  test('retries no task that was created after its start, even if `to` is later', async (t) => {
    const { retryMany, end, runs, aroundPages } = setUp(t)
    const id = await end('ann', { fails: true })
    let later = ''
    aroundPages(async (list) => {
      const before = Date.now()
      await eventually(() => Date.now() > before + 2)
      later = await end('ann', { fails: true })
      return list()
    })
    assert.equal((await (await retryMany('?to=2099-01-01T00:00:00Z')).result())?.retried, 1)
    await eventually(() => runs.get(id) === 2)
    assert.equal(runs.get(later), 1)
  })

  test('lets the process do other work between two pages', async (t) => {
    const { retryMany, tasks, one, aroundPages } = setUp(t)
    for (let n = 0; n < 200; n++) await tasks.ownedBy(`user${n}`).submit(one, {})
    await eventually(async () => (await tasks.list({ status: ['queued', 'processing'] })).items.length === 0)
    let turn = 0
    const count = () => { counting = setImmediate(count); turn++ }
    let counting = setImmediate(count)
    t.after(() => { clearImmediate(counting) })
    const turns = new Set<number>()
    aroundPages((list) => {
      turns.add(turn)
      return list()
    })
    assert.equal((await (await retryMany('')).result())?.retried, 200)
    assert.equal(turns.size, 4)
  })

  test('rejects other filters and bodies', async (t) => {
    const { ask } = setUp(t)
    for (const query of [
      'status=completed', 'status=processing', 'limit=1', 'cursor=a', 'order=oldest', 'task=none',
      'from=now', 'owner=', 'status=',
    ]) {
      const response = await ask('POST', `/admin/tasks/retry?${query}`)
      assert.deepEqual([response.status, (await response.json<{ code: string }>()).code], [400, 'invalid_query'], query)
    }
    assert.equal(
      (
        await ask('POST', '/admin/tasks/retry', {
          body: '{"task":"report"}',
          headers: { 'content-type': 'application/json' },
        })
      ).status,
      400,
    )
    assert.equal((await ask('POST', '/admin/tasks/retry', { headers: { 'sec-fetch-site': 'cross-site' } })).status, 403)
  })

  test('cannot be submitted by an owner, even under its name', async (t) => {
    const { tasks, retries, end, runs } = setUp(t)
    const id = await end('bob', { fails: true })
    const { submit } = taskEndpoints(tasks, {
      statusPath: '/tasks/{id}',
      owner: ({ headers }: HttpRequest) => headers['x-user'] as string | undefined,
      anonymous: true,
    })
    const byName = submit((body) => {
      const { task, data } = body as { task: string, data: unknown }
      const definition = tasks.definition(task)
      if (!definition) throw httpError('unknown_task')
      return { definition, input: data }
    })
    for (const prefer of [{}, { prefer: 'respond-async' }]) {
      for (const user of [{}, { 'x-user': 'ann' }]) {
        const response = await inject(byName, {
          method: 'POST',
          path: '/',
          headers: { 'content-type': 'application/json', ...prefer, ...user },
          body: JSON.stringify({ task: 'retry-tasks', data: { owner: 'bob' } }),
        })
        assert.deepEqual([response.status, (await response.json<{ code: string }>()).code], [422, 'unknown_task'])
      }
    }
    await assert.rejects(tasks.ownedBy('ann').submit(retries, {}), { code: 'unknown_task' })
    await assert.rejects(tasks.ownedBy(undefined).submit(retries, {}), { code: 'unknown_task' })
    const { items } = await tasks.list({ task: retries })
    assert.deepEqual([items, runs.get(id)], [[], 1])
  })

  test('can be submitted by your own code as a task, and has no synchronous run', async (t) => {
    const { tasks, retries, end, runs } = setUp(t)
    const id = await end('ann', { fails: true })
    const { wait } = await tasks.submit(retries, { task: ['report'], to: new Date(Date.now() + 1000).toISOString() })
    const done = await wait({ timeoutMs: 60_000 })
    assert.equal(done?.status === 'completed' && done.result.retried, 1)
    await eventually(() => runs.get(id) === 2)
    await assert.rejects(async () => tasks.submit(retries, { status: ['completed'] as never }), {
      code: 'invalid_input',
    })
    assert.throws(() => retries.run({}, {} as never), /retry-tasks changes the tasks of createTasks/)
  })
})
