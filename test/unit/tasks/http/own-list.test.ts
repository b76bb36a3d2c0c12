import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { memory } from '../../../../adapters/memory/index.js'
import {
  createTasks, defineTask, HttpError, jobFormat, router, taskEndpoints, taskFormat, type HttpRequest,
  type TaskEndpointsOptions,
} from '../../../../src/index.js'
import { inject } from '../../../../src/testing/index.js'
import { byQuery, versions } from '../../../../src/versions/index.js'
import { eventually } from '../../../kit/wait.js'

const report = defineTask({ name: 'report', run: ({ fails, text }: { fails?: boolean, text?: string }) => {
  if (fails) throw new HttpError(422, 'no_paper', { message: 'There is no paper.' })
  return { message: 'done', ...text !== undefined && { text } }
} })
const mail = defineTask({ name: 'mail', run: () => new Promise(() => undefined) })

const owner = ({ headers }: HttpRequest): string | undefined => headers['x-user'] as string | undefined

function setUp(t: TestContext, options: Partial<TaskEndpointsOptions> = {}) {
  const tasks = createTasks({ ...memory(), definitions: [report, mail], concurrency: 1 })
  t.after(() => tasks.close({ drainMs: 0 }))
  const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner, ...options })
  const site = router({ 'GET /tasks': endpoints.list, 'GET|HEAD|DELETE /tasks/{id}': endpoints.status })
  const get = (path: string, user: string | undefined = 'ann', headers: Record<string, string> = {}) => (
    inject(site, { path, headers: { ...user !== undefined && { 'x-user': user }, ...headers } })
  )
  const done = async (user: string, input: { fails?: boolean, text?: string } = {}) => {
    const task = await tasks.ownedBy(user).submit(report, input)
    await task.wait({ timeoutMs: 60_000 })
    return task.taskId
  }
  return { tasks, endpoints, site, get, done }
}

interface Body { items: Record<string, unknown>[], next?: string }
const idsOf = ({ items }: Body): unknown[] => items.map(({ taskId, id }) => taskId ?? id)

describe('endpoints.list', () => {
  test("shows the owner's tasks with the bodies of their status resources, the newest first", async (t) => {
    const { get, done } = setUp(t)
    const ids = [await done('ann'), await done('ann', { fails: true })]
    await done('bob')
    const answer = await get('/tasks')
    assert.equal(answer.status, 200)
    assert.equal(answer.headers['cache-control'], 'private, no-cache')
    assert.equal(answer.headers['vary'], 'Accept, Authorization')
    const { items, next } = await answer.json<Body>()
    assert.equal(next, undefined)
    assert.deepEqual(new Set(items.map(({ taskId }) => taskId)), new Set(ids))
    for (const item of items) {
      assert.deepEqual(item, await (await get(`/tasks/${String(item['taskId'])}`)).json())
    }
    assert.deepEqual(await (await get('/tasks', 'carl')).json(), { items: [] })
  })

  test('leads through all pages by `next` and Link, with the filter and the mount path', async (t) => {
    const { endpoints, done, tasks } = setUp(t)
    const mounted = router({ 'GET /tasks': endpoints.list })
    const ids: string[] = []
    for (let n = 0; n < 5; n++) ids.push(await done('ann'))
    await done('ann', { fails: true })
    const seen: unknown[] = []
    const ask = async (path: string) => {
      const answer = await inject(mounted, { path, headers: { 'x-user': 'ann' }, mountPath: '/v1' })
      assert.equal(answer.status, 200)
      return { body: await answer.json<Body>(), link: String(answer.headers['link']) }
    }
    const first = '/v1/tasks?status=completed%2Cprocessing&order=oldest&limit=2'
    let path: string | undefined = '/v1/tasks?status=completed,processing&order=oldest&limit=2'
    while (path !== undefined) {
      const { body, link } = await ask(path)
      seen.push(...idsOf(body))
      const links = [`<${first}>; rel="first"`, ...body.next === undefined ? [] : [`<${body.next}>; rel="next"`]]
      assert.equal(link, links.join(', '))
      path = body.next
    }
    const inOrder = (await tasks.ownedBy('ann').list({ order: 'oldest', status: 'completed' })).items.map(
      ({ taskId }) => taskId,
    )
    assert.deepEqual(seen, inOrder)
    assert.deepEqual(new Set(seen), new Set(ids))
  })

  test('takes filters with the words of the format, and `processing` includes waiting tasks', async (t) => {
    const { tasks, get, done } = setUp(t)
    const good = await done('ann')
    const bad = await done('ann', { fails: true })
    const mine = tasks.ownedBy('ann')
    const running = (await mine.submit(mail, {})).taskId
    await eventually(async () => (await mine.get(running))?.status === 'processing')
    const queued = (await mine.submit(mail, {})).taskId
    const later = (await mine.submit(mail, {}, { delayMs: 3_600_000 })).taskId
    const found = async (query: string) => new Set(idsOf(await (await get(`/tasks?${query}`)).json<Body>()))
    assert.deepEqual(await found('status=processing'), new Set([running, queued, later]))
    assert.deepEqual(await found('status=completed'), new Set([good]))
    assert.deepEqual(await found('status=failed,completed,failed'), new Set([good, bad]))
    assert.deepEqual(await found('status=cancelled'), new Set())
    assert.deepEqual(await found('task=report'), new Set([good, bad]))
    assert.deepEqual(await found('task=report,mail&status=processing,failed'), new Set([bad, running, queued, later]))
    const soon = new Date(Date.now() + 60_000).toISOString()
    assert.deepEqual(await found(`from=${soon}`), new Set())
    assert.deepEqual(await found(`to=${soon}&task=report`), new Set([good, bad]))
    const ago = new Date(Date.now() - 60_000).toISOString().replace('Z', '+00:00')
    assert.equal((await found(`from=${ago}`)).size, 5, 'a plus sign that is not percent-encoded')
  })

  test('shows waiting tasks separately in the job format, and a format can have other words', async (t) => {
    const { tasks, endpoints } = setUp(t, { format: jobFormat })
    const statuses = { NotStarted: ['scheduled', 'queued'], Running: ['processing'] } as const
    const custom = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner, format: { ...taskFormat, statuses } })
    const mine = tasks.ownedBy('ann')
    const running = (await mine.submit(mail, {})).taskId
    await eventually(async () => (await mine.get(running))?.status === 'processing')
    const queued = (await mine.submit(mail, {})).taskId
    const later = (await mine.submit(mail, {}, { delayMs: 3_600_000 })).taskId
    const found = async (list: typeof endpoints.list, status: string) => {
      const answer = await inject(list, {
        path: `/jobs?status=${status}`,
        headers: { 'x-user': 'ann' },
        mountPath: '/v2',
      })
      return answer.status === 200
        ? await answer.json<Body>()
        : { items: [{ taskId: (await answer.json<{ code: string }>()).code }] }
    }
    const jobs = await found(endpoints.list, 'queued')
    assert.deepEqual(idsOf(jobs), [queued])
    assert.equal(jobs.items[0]?.['statusUrl'], `/v2/tasks/${queued}`)
    assert.deepEqual(idsOf(await found(endpoints.list, 'scheduled')), [later])
    assert.deepEqual(idsOf(await found(endpoints.list, 'processing')), [running])
    assert.deepEqual(new Set(idsOf(await found(custom.list, 'NotStarted'))), new Set([queued, later]))
    assert.deepEqual(idsOf(await found(custom.list, 'Running')), [running])
    assert.deepEqual(idsOf(await found(custom.list, 'processing')), ['invalid_query'])
  })

  test('responds with 400 to unknown parameters, which the message names', async (t) => {
    const { get, done } = setUp(t)
    for (let n = 0; n < 3; n++) await done('ann')
    const { next = '' } = await (await get('/tasks?limit=1')).json<Body>()
    const cursor = new URLSearchParams(next.split('?')[1]).get('cursor') ?? ''
    assert.notEqual(cursor, '')
    const wrong: readonly [query: string, names: RegExp][] = [
      ['stat=failed', /"stat".*"status", "task", "from", "to", "order", "limit", "cursor"/],
      ['owner=bob', /"owner"/],
      [`${'x'.repeat(500)}=1`, /"x{63}…"/],
      ['__proto__=1', /"__proto__"/],
      ['constructor=1', /"constructor"/],
      ['status=failed&status=completed', /^"status" must occur once/],
      ['limit=1&limit=1', /^"limit"/],
      ['cursor=a&cursor=b', /^"cursor"/],
      ['status=', /^"status"/],
      [
        'status=queued',
        /^"status" must be one or several of "processing", "input_required", "completed", "failed", "cancelled"/,
      ],
      ['status=failed,', /^"status"/],
      ['status=toString', /^"status"/],
      ['status=Failed', /^"status"/],
      ['task=unknown', /^"task": .*"unknown"/],
      ['task=report,', /^"task": .*""/],
      ['task=report%00', /^"task"/],
      ['from=yesterday', /^"from"/],
      ['to=2026-02-30T00:00:00Z', /^"to"/],
      ['from=2026-01-01', /^"from"/],
      ['order=random', /^"order"/],
      ['limit=0', /^"limit"/],
      ['limit=-1', /^"limit"/],
      ['limit=1e2', /^"limit"/],
      ['limit=1.5', /^"limit"/],
      ['limit=', /^"limit"/],
    ]
    for (const [query, names] of wrong) {
      const answer = await get(`/tasks?${query}`)
      const { code, error } = await answer.json<{ code: string, error: string }>()
      assert.deepEqual([query, answer.status, code], [query, 400, 'invalid_query'])
      assert.match(error, names)
    }
    const foreign = [
      'cursor=x',
      'cursor=',
      `cursor=${cursor}x`,
      `cursor=${cursor}&order=oldest`,
      `cursor=${cursor}&status=failed`,
      `cursor=${cursor}&task=report`,
      `cursor=${'A'.repeat(5000)}`,
      `cursor=${cursor}&from=2020-01-01T00:00:00Z`,
    ]
    for (const query of foreign) {
      const answer = await get(`/tasks?${query}`)
      const { code, error } = await answer.json<{ code: string, error: string }>()
      assert.deepEqual([query, answer.status, /cursor/.test(error)], [query, 400, true])
      assert.ok(code === 'invalid_cursor' || query === 'cursor=', code)
    }
    assert.equal((await get(`/tasks?limit=1&cursor=${cursor}`, 'bob')).status, 400, 'a cursor of another owner')
    assert.equal((await get(`/tasks?limit=2&cursor=${cursor}`)).status, 200, 'another limit is fine')
    assert.equal((await get('/tasks?limit=100000000000000000000000')).status, 200, 'more than 200 are cut to that')
    assert.equal((await get('/tasks?status=processing,failed,cancelled,completed')).status, 200)
  })

  test('responds with 304 for an unchanged page, even after a HEAD, and shows a change', async (t) => {
    const { site, get, done } = setUp(t)
    const id = await done('ann')
    const first = await get('/tasks')
    const etag = String(first.headers['etag'])
    assert.match(etag, /^"[\w-]{22}"$/)
    const again = await get('/tasks', 'ann', { 'if-none-match': `"x", W/${etag}` })
    assert.deepEqual([again.status, await again.text()], [304, ''])
    for (const name of ['etag', 'cache-control', 'vary', 'link'])
      assert.equal(again.headers[name], first.headers[name], name)
    assert.equal(again.headers['content-type'], undefined)
    const head = await inject(site, { method: 'HEAD', path: '/tasks', headers: { 'x-user': 'ann' } })
    assert.deepEqual([head.status, head.headers['etag'], await head.text()], [200, etag, ''])
    assert.equal((await get('/tasks', 'ann', { 'if-match': etag })).status, 200)
    assert.equal((await get('/tasks', 'ann', { 'if-match': '"other"' })).status, 412)
    await done('ann')
    const changed = await get('/tasks', 'ann', { 'if-none-match': etag })
    assert.equal(changed.status, 200)
    assert.equal(idsOf(await changed.json<Body>()).length, 2)
    await inject(site, { method: 'DELETE', path: `/tasks/${id}`, headers: { 'x-user': 'ann' } })
  })

  test('responds with JSON only, declines other methods, and requires an owner', async (t) => {
    const { endpoints, get, site } = setUp(t)
    assert.equal((await get('/tasks', 'ann', { accept: 'text/html' })).status, 406)
    assert.equal((await get('/tasks', 'ann', { accept: 'text/html, application/*;q=0.1' })).status, 200)
    assert.equal(
      (await inject(endpoints.list, { method: 'POST', path: '/tasks', headers: { 'x-user': 'ann' } })).status,
      404,
    )
    assert.equal((await inject(site, { method: 'DELETE', path: '/tasks', headers: { 'x-user': 'ann' } })).status, 405)
    const anonymous = await inject(site, { path: '/tasks' })
    assert.deepEqual([anonymous.status, (await anonymous.json<{ code: string }>()).code], [401, 'unauthorized'])
  })

  test('ends a page before it is too large for memory, and the next page continues after it', async (t) => {
    const { get, done } = setUp(t)
    const ids: string[] = []
    for (let n = 0; n < 7; n++) ids.push(await done('ann', { text: 'x'.repeat(900_000) }))
    const seen: unknown[] = []
    const sizes: number[] = []
    for (let path: string | undefined = '/tasks'; path !== undefined;) {
      const answer = await get(path)
      const text = await answer.text()
      assert.ok(text.length < 4.2 * 1024 * 1024, `${text.length}`)
      const body = JSON.parse(text) as Body
      sizes.push(body.items.length)
      seen.push(...idsOf(body))
      path = body.next
    }
    assert.deepEqual(sizes, [4, 3])
    assert.deepEqual(new Set(seen), new Set(ids))
  })

  test('allows parameters that a policy reads if the application says so, and keeps them in the links', async (t) => {
    const strict = setUp(t)
    const lax = setUp(t, { list: { also: ['version'] } })
    for (const { endpoints, done } of [strict, lax]) {
      await done('ann')
      await done('ann')
      const site = versions({ 1: endpoints.list }, { select: [byQuery()] })
      const answer = await inject(site, { path: '/tasks?version=1&limit=1', headers: { 'x-user': 'ann' } })
      assert.equal(answer.status, endpoints === strict.endpoints ? 400 : 200)
      if (answer.status === 200)
        assert.match((await answer.json<Body>()).next ?? '', /^\/tasks\?version=1&limit=1&cursor=/)
    }
  })

  test('leaves out links that are too long for clients, and has `next` in the body', async (t) => {
    const { endpoints, done } = setUp(t, { list: { also: ['q'] } })
    await done('ann')
    await done('ann')
    const linkOf = async (length: number) => {
      const answer = await inject(endpoints.list, {
        path: `/tasks?limit=1&q=${'x'.repeat(length)}`,
        headers: { 'x-user': 'ann' },
      })
      assert.match((await answer.json<Body>()).next ?? '', /^\/tasks\?limit=1&q=x+&cursor=/)
      return String(answer.headers['link'])
    }
    assert.match(await linkOf(100), /rel="first".*rel="next"/)
    assert.match(await linkOf(2500), /^<[^>]*>; rel="next"$/)
    assert.equal(await linkOf(5000), 'undefined')
  })

  test('throws without owners when it is used, and not at construction', (t) => {
    const { tasks: listed } = setUp(t)
    const shared = taskEndpoints(listed, { statusPath: '/tasks/{id}', owner: 'anyone' })
    assert.throws(() => shared.list, { name: 'TypeError', message: /no list with owner: 'anyone'/ })
    assert.throws(
      () => taskEndpoints(listed, { statusPath: '/t/{id}', owner, list: { als: [] } as never }),
      /did you mean "also"/,
    )
  })
})
