// Nobody sees, changes or lists a task of somebody else: pairs of owners, verbs, targets and cursors at random.
import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import fc from 'fast-check'
import { memory } from '../../../../adapters/memory/index.js'
import { createTasks, defineTask, router, taskEndpoints, type HttpRequest } from '../../../../src/index.js'
import { operatorEndpoints, retryTasks } from '../../../../src/operators/index.js'
import { inject } from '../../../../src/testing/index.js'

const OWNERS = ['ann', 'bob', 'Ann', 'ann ', undefined] as const
type Owner = typeof OWNERS[number]

const report = defineTask({
  name: 'report',
  run: ({ mark, fails }: { mark: string, fails: boolean }) => {
    if (fails) throw new Error('it failed')
    return { message: mark }
  },
})
const slow = defineTask({ name: 'slow', run: (_: { mark: string }) => new Promise(() => undefined) })

const retries = retryTasks()
const tasks = createTasks({
  ...memory(),
  definitions: [report, slow, retries],
  concurrency: 2,
  onError: () => undefined,
})
const owner = ({ context }: HttpRequest): Owner => (context as { owner: Owner }).owner
const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner, anonymous: true, remove: 'forget' })
const operators = operatorEndpoints(tasks, {
  statusPath: '/admin/tasks/{id}',
  operator: ({ context }) => context.user?.role === 'admin',
  remove: 'forget',
  retries,
})
const site = router({
  '/tasks/{id}': endpoints.status,
  '/tasks/{id}/retry': endpoints.retry,
  '/tasks/{id}/callback': endpoints.callback,
  '/tasks/{id}/files/{name}': endpoints.files,
  'GET /tasks': endpoints.list,
  '/admin/tasks/{id}': operators.status,
  '/admin/tasks/{id}/retry': operators.retry,
  '/admin/tasks/{id}/callback': operators.callback,
  '/admin/tasks/{id}/files/{name}': operators.files,
  'GET /admin/tasks': operators.list,
  'GET /admin/overview': operators.overview,
  'POST /admin/tasks/retry': operators.retryMany,
})

/** Ids of all tasks, and the text in their results, by owner. */
const ids = new Map<Owner, string[]>()
const cursors: string[] = []
const markOf = (who: Owner): string => `mark-of-${OWNERS.indexOf(who)}!`

const as = (who: Owner) => ({
  context: { owner: who, principal: { subject: who ?? 'nobody' }, user: { role: 'customer' } },
})

before(async () => {
  for (const who of OWNERS) {
    const mine = tasks.ownedBy(who)
    const all: string[] = []
    for (const fails of [false, true, false]) {
      const { taskId, wait } = await mine.submit(report, { mark: markOf(who), fails })
      await wait({ timeoutMs: 60_000 })
      all.push(taskId)
    }
    const waiting = await mine.submit(slow, { mark: markOf(who) }, { delayMs: 3_600_000 })
    all.push(waiting.taskId)
    ids.set(who, all)
  }
  for (const who of OWNERS) {
    if (who === undefined) continue
    for (const query of ['limit=1', 'limit=1&status=completed', 'limit=1&order=oldest', 'limit=1&task=report']) {
      const { next } = await (await inject(site, { path: `/tasks?${query}`, ...as(who) })).json<{ next?: string }>()
      cursors.push(new URLSearchParams(next?.split('?')[1]).get('cursor') ?? '')
    }
  }
  const { next } = await tasks.list({ limit: 1 })
  cursors.push(next ?? '')
  assert.ok(cursors.every((cursor) => cursor !== ''))
})

const anOwner = fc.constantFrom(...OWNERS)
const aTarget = fc.tuple(anOwner, fc.nat({ max: 3 }))
const aCursor = fc.oneof(
  fc.nat({ max: 16 }).map((at) => cursors[at] ?? ''),
  fc.tuple(fc.nat({ max: 16 }), fc.nat({ max: 60 }), fc.constantFrom('A', 'z', '_', '')).map(([at, place, char]) => {
    const cursor = cursors[at] ?? ''
    return cursor.slice(0, place) + char + cursor.slice(place + 1)
  }),
  fc.string(),
)
const aFilter = fc.constantFrom(
  '',
  '&status=completed',
  '&status=processing,failed',
  '&order=oldest',
  '&task=report',
  '&limit=2',
  '&owner=bob',
  '&of=all',
)
const aHeader = fc.constantFrom(
  {},
  { prefer: 'wait=0' },
  { 'if-none-match': '*' },
  { accept: 'text/event-stream' },
  { 'idempotency-key': 'k' },
  { 'x-user': 'bob' },
)
const aRequest = fc.oneof(
  fc.record({
    method: fc.constantFrom('GET', 'HEAD', 'DELETE', 'POST', 'PUT', 'OPTIONS'),
    target: aTarget,
    headers: aHeader,
    below: fc.constantFrom('', '', '/retry', '/callback', '/files/a.csv'),
  }),
  fc.record({ path: fc.constantFrom('/tasks', '/admin/tasks', '/admin/overview'), cursor: aCursor, filter: aFilter }),
  fc.record({
    method: fc.constantFrom('GET', 'HEAD', 'DELETE', 'POST'),
    admin: fc.constantFrom('', '', '/retry', '/callback', '/files/a.csv'),
    target: aTarget,
    headers: aHeader,
  }),
  fc.record({ filter: aFilter }),
)

describe('requests of one owner', () => {
  test('never show, change or list a task of another owner, by any method, header, cursor or filter', async () => {
    const unknown = await (await inject(site, { path: '/tasks/unknown', ...as('ann') })).text()
    await fc.assert(fc.asyncProperty(anOwner, aRequest, async (who, asked) => {
      if ('admin' in asked) {
        const { method, admin, target: [whose, at], headers } = asked
        const id = ids.get(whose)?.[at] ?? ''
        const earlier = await tasks.get(id)
        const known = await inject(site, { method, path: `/admin/tasks/${id}${admin}`, headers, ...as(who) })
        const other = await inject(site, { method, path: `/admin/tasks/unknown${admin}`, headers, ...as(who) })
        const isKeyed = method === 'DELETE' && admin === '' && 'idempotency-key' in headers
        assert.ok(
          [403, 405].includes(known.status) || (isKeyed && known.status === 400),
          `${method} ${admin}: ${known.status}`,
        )
        assert.deepEqual([known.status, await known.text()], [other.status, await other.text()])
        assert.deepEqual(await tasks.get(id), earlier)
        return
      }
      if (!('path' in asked || 'target' in asked)) {
        const refused = await inject(site, {
          method: 'POST',
          path: `/admin/tasks/retry?limit=1${asked.filter}`,
          ...as(who),
        })
        assert.equal(refused.status, 403)
        return
      }
      if ('target' in asked) {
        const { method, target: [whose, at], headers, below } = asked
        const id = ids.get(whose)?.[at] ?? ''
        // Owners forget nothing, so that there is something to find until the end.
        if (whose === who && method === 'DELETE') return
        const earlier = await tasks.get(id)
        const answer = await inject(site, { method, path: `/tasks/${id}${below}`, headers, ...as(who) })
        if (whose === who) return
        // Refused whoever asks, so it tells nothing.
        if (method === 'DELETE' && below === '' && 'idempotency-key' in headers) assert.equal(answer.status, 400)
        else if (method === 'OPTIONS') assert.equal(answer.status, 200)
        else assert.ok(answer.status === 404 || answer.status === 405, `${method} ${below}: ${answer.status}`)
        if (answer.status === 404 && method !== 'HEAD' && !below.startsWith('/files')) {
          assert.equal(await answer.text(), unknown)
        }
        if (below === '' && ['GET', 'HEAD'].includes(method)) assert.equal(answer.status, 404)
        assert.deepEqual(await tasks.get(id), earlier)
        return
      }
      const { path, cursor, filter } = asked
      const answer = await inject(site, { path: `${path}?cursor=${encodeURIComponent(cursor)}${filter}`, ...as(who) })
      const text = JSON.stringify(answer.headers) + await answer.text()
      assert.ok(answer.status < 500, text)
      assert.ok(path === '/tasks' || answer.status === 403, text)
      for (const whose of OWNERS) {
        if (whose === who && who !== undefined) continue
        assert.ok(!text.includes(markOf(whose)), text)
        for (const id of ids.get(whose) ?? []) assert.ok(!text.includes(id), text)
      }
    }), { numRuns: 1500 })
  })

  test('find exactly the tasks of that owner', async () => {
    for (const who of OWNERS) {
      const answer = await inject(site, { path: '/tasks', ...as(who) })
      if (who === undefined) {
        assert.equal(answer.status, 401)
        continue
      }
      const { items } = await answer.json<{ items: { taskId: string }[] }>()
      assert.deepEqual(items.map(({ taskId }) => taskId).toSorted(), ids.get(who)?.toSorted())
    }
    await tasks.close({ drainMs: 0 })
  })
})
