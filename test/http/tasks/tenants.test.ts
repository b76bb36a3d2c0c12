// Two tenants with users of the same names, as clients who know ids and keys of the other tenant see each other.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, test, type TestContext } from 'node:test'
import {
  createTasks, defineTask, router, taskEndpoints, type HttpRequest, type TaskContext,
} from 'longhaul'
import { cancelTasks, forgetTasks, operatorEndpoints, retryTasks } from 'longhaul/operators'
import { partialResults } from 'longhaul/partial'
import { inject } from 'longhaul/testing'
import { resumableUpload } from 'longhaul/uploads'
import { z } from 'zod'
import { eventually, keepAlive } from '../../kit/wait.js'
import { openDatabase } from '../../servers/open-database.js'
import { postgresUrl } from '../../servers/postgres-url.js'
import { redisUrl } from '../../servers/redis-server.js'
import { sqliteUrl } from '../../servers/sqlite.js'

/** `run` of partial results does not know the type of `asks`. */
type Ask<A> = (key: string, question: { readonly message: string }) => Promise<A>

interface Sent { readonly body?: unknown, readonly headers?: Record<string, string> }
interface User { readonly id: string, readonly tenant?: string }

const ANN: User = { id: 'ann', tenant: 'acme' }
/** Those who must not see the tasks of ann of acme. */
const STRANGERS: readonly User[] = [
  { id: 'ann', tenant: 'bolt' }, { id: 'ann' }, { id: 'bob', tenant: 'acme' }, { id: 'acme', tenant: 'ann' },
  { id: 'acme' }, { id: 'acmeann' },
]
const urls = { memory: undefined, SQLite: await sqliteUrl(), Redis: await redisUrl(), PostgreSQL: await postgresUrl() }
let sites = 0

/** Work of each kind, for users of tenants and for an operator. */
function open(t: TestContext, url: string | undefined) {
  keepAlive(t)
  const folder = mkdtempSync(join(tmpdir(), 'longhaul-tenants-'))
  const database = openDatabase(url, { folder, name: `tenants_${String(process.pid)}_${String(++sites)}` })
  const { store, blobs } = database.parts
  const words = partialResults<string>({ store })
  const seen: Pick<TaskContext, 'owner' | 'tenant'>[] = []
  const work = defineTask({
    name: 'work', files: true, external: words.external, asks: { name: z.string() },
    input: z.object({ asks: z.boolean().optional(), fails: z.boolean().optional() }),
    run: words.run(async ({ asks, fails }, { owner, tenant, files, emit, ask }) => {
      seen.push({ owner, tenant })
      await emit('hello')
      if (asks) await (ask as Ask<string>)('name', { message: 'What is your name?' })
      if (fails) throw new Error('it fails')
      await files.write('report.txt', 'secret', { type: 'text/plain' })
      return 'secret'
    }),
  })
  const few = defineTask({ name: 'few', maxPerOwner: 2, run: () => undefined })
  const [retries, cancels, forgets] = [retryTasks(), cancelTasks(), forgetTasks()]
  const tasks = createTasks({
    ...database.parts, definitions: [work, few, retries, cancels, forgets], onError: () => undefined,
  })
  const owner = ({ context: { user } }: HttpRequest<{ user?: User }>) => user && { owner: user.id, tenant: user.tenant }
  const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner, remove: 'forget' })
  const operators = operatorEndpoints<{ user?: User }>(tasks, {
    statusPath: '/admin/{id}', operator: ({ context }) => context.user?.id === 'root', retries, cancels, forgets,
  })
  const uploads = resumableUpload(endpoints.submit(work), { store, blobs, owner, uploadPath: '/uploads/{id}' })
  const site = router<{ user?: User }>({
    'POST /tasks': endpoints.submit(work), 'GET /tasks': endpoints.list, 'GET|DELETE /tasks/{id}': endpoints.status,
    'POST /few': endpoints.submit(few),
    'POST /tasks/{id}/retry': endpoints.retry, 'POST /tasks/{id}/input': endpoints.input,
    'POST /tasks/{id}/callback': endpoints.callback,
    'GET /tasks/{id}/files/{name}': endpoints.files, 'GET /tasks/{id}/partial-results': words.endpoint(endpoints),
    'POST /uploads': uploads.create, 'GET|HEAD|PATCH|DELETE /uploads/{id}': uploads.resource,
    'GET /admin': operators.list, 'POST /admin/retry': operators.retryMany,
    'POST /admin/cancel': operators.cancelMany, 'POST /admin/forget': operators.forgetMany,
    'GET /admin/{id}': operators.status,
  })
  t.after(async () => {
    await tasks.close({ drainMs: 100 })
    await database.close()
    rmSync(folder, { recursive: true, force: true })
  })
  const send = (user: User, target: string, { body, headers = {} }: Sent = {}) => {
    const [method = '', path = ''] = target.split(' ')
    return inject(site, { method, path, headers, context: { user }, ...body !== undefined && { body } })
  }
  const submit = async (user: User, body: object = {}, headers: Record<string, string> = {}): Promise<string> => {
    const response = await send(user, 'POST /tasks', { body, headers: { prefer: 'respond-async', ...headers } })
    assert.equal(response.status, 202, await response.text())
    return (await response.json<{ taskId: string }>()).taskId
  }
  const ids = async (user: User, target: string): Promise<string[]> => {
    const response = await send(user, target)
    assert.equal(response.status, 200, await response.text())
    return (await response.json<{ items: { taskId: string }[] }>()).items.map(({ taskId }) => taskId).sort()
  }
  return { tasks, work, few, seen, send, submit, ids }
}

/** All that a client can do with the id of a task. */
const REQUESTS: readonly (readonly [string, Sent?])[] = [
  ['GET /tasks/{id}'], ['GET /tasks/{id}', { headers: { prefer: 'wait=1' } }],
  ['GET /tasks/{id}', { headers: { accept: 'text/event-stream' } }],
  ['GET /tasks/{id}/files/report.txt'], ['GET /tasks/{id}/partial-results'],
  ['POST /tasks/{id}/input', { body: { name: 'eve' } }], ['POST /tasks/{id}/retry'], ['POST /tasks/{id}/callback'],
  ['DELETE /tasks/{id}'],
]

for (const [name, url] of Object.entries(urls)) describe(`tenants on ${name}`, () => {
  test('a user sees only tasks of their own tenant, and tasks of other tenants are unknown', async (t) => {
    const { tasks, seen, send, submit, ids } = open(t, url)
    const done = await submit(ANN)
    const asks = await submit(ANN, { asks: true })
    const failed = await submit(ANN, { fails: true })
    await tasks.wait(done, { timeoutMs: 20_000 })
    await tasks.wait(failed, { timeoutMs: 20_000 })
    assert.deepEqual(seen[0], { owner: 'ann', tenant: 'acme' })
    for (const stranger of STRANGERS) {
      for (const id of [done, asks, failed]) for (const [target, request] of REQUESTS) {
        const [real, unknown] = await Promise.all([id, 'unknown'].map(async (each) => {
          const response = await send(stranger, target.replace('{id}', each), request)
          return `${String(response.status)} ${(await response.text()).replaceAll(each, '{id}')}`
        }))
        assert.equal(real, unknown, `${JSON.stringify(stranger)} ${target}`)
        assert.match(real ?? '', /^404 /, target)
      }
      assert.deepEqual(await ids(stranger, 'GET /tasks'), [])
    }
    assert.deepEqual(await ids(ANN, 'GET /tasks'), [done, asks, failed].sort())
    assert.equal(await (await send(ANN, `GET /tasks/${done}/files/report.txt`)).text(), 'secret')
    assert.match(await (await send(ANN, `GET /tasks/${done}/partial-results`)).text(), /hello/)
    await eventually(async () => (await tasks.get(asks))?.status === 'input_required')
    assert.equal((await send(ANN, `POST /tasks/${asks}/input`, { body: { name: 'ann' } })).status, 200)
    assert.equal((await tasks.wait(asks, { timeoutMs: 20_000 }))?.status, 'completed')
    assert.equal((await send(ANN, `POST /tasks/${failed}/retry`)).status, 202)
  })

  test('a key of one tenant starts work of its own in another one', async (t) => {
    const { tasks, work, submit } = open(t, url)
    const key = { 'idempotency-key': 'invoice-42' }
    const ids = [await submit(ANN, {}, key)]
    for (const stranger of STRANGERS) ids.push(await submit(stranger, {}, key))
    assert.equal(new Set(ids).size, STRANGERS.length + 1)
    assert.equal(await submit(ANN, {}, key), ids[0])
    const unique = async ({ id, tenant }: User) => (
      await tasks.ownedBy(id, { tenant }).submit(work, {}, { unique: 'invoice-42', delayMs: 60_000 })
    )
    assert.deepEqual(
      await Promise.all([ANN, ...STRANGERS].map(async (user) => (await unique(user)).created)),
      Array.from({ length: STRANGERS.length + 1 }, () => true),
    )
    assert.equal((await unique(ANN)).created, false)
  })

  test('an upload of one tenant is unknown in another one', async (t) => {
    const { send } = open(t, url)
    const start = { 'upload-complete': '?0', 'upload-draft-interop-version': '8', 'content-type': 'application/json' }
    const created = await send(ANN, 'POST /uploads', { body: '{}', headers: start })
    const path = new URL(String(created.headers['location']), 'http://localhost').pathname
    const append = { ...start, 'upload-complete': '?1', 'upload-offset': '2', 'content-type': 'application/partial-upload' }
    for (const stranger of STRANGERS) {
      for (const [target, headers] of [['HEAD', {}], ['PATCH', append], ['DELETE', {}]] as const) {
        const response = await send(stranger, `${target} ${path}`, { headers, ...target === 'PATCH' && { body: '' } })
        assert.equal(response.status, 404, `${JSON.stringify(stranger)} ${target}`)
      }
    }
    assert.equal((await send(ANN, `HEAD ${path}`)).headers['upload-offset'], '2')
  })

  test('limits count all users of a tenant together, and no user of another one', async (t) => {
    const { tasks, few, send } = open(t, url)
    await tasks.pause('default')
    const start = async (user: User): Promise<number> => (
      (await send(user, 'POST /few', { body: {}, headers: { prefer: 'respond-async' } })).status
    )
    assert.deepEqual([await start(ANN), await start({ id: 'bob', tenant: 'acme' })], [202, 202])
    assert.equal(await start({ id: 'cid', tenant: 'acme' }), 429)
    await assert.rejects(tasks.ownedBy('dan', { tenant: 'acme' }).submit(few, undefined), { code: 'too_many_tasks' })
    await assert.rejects(tasks.submit(few, undefined, { tenant: 'acme' }), { code: 'too_many_tasks' })
    for (const other of [{ id: 'ann', tenant: 'bolt' }, { id: 'ann' }, { id: 'acme' }]) assert.equal(await start(other), 202)
  })

  test('operators list and change the tasks of a tenant, or of one owner in it', async (t) => {
    const { tasks, work, send, submit, ids } = open(t, url)
    const root: User = { id: 'root' }
    const [ann, bob] = [await submit(ANN), await submit({ id: 'bob', tenant: 'acme' })]
    const [other, none] = [await submit({ id: 'ann', tenant: 'bolt' }), await submit({ id: 'ann' })]
    const { taskId: own } = await tasks.submit(work, {}, { tenant: 'acme' })
    for (const id of [ann, bob, other, none, own]) await tasks.wait(id, { timeoutMs: 20_000 })
    assert.deepEqual(await ids(root, 'GET /admin?tenant=acme'), [ann, bob, own].sort())
    assert.deepEqual(await ids(root, 'GET /admin?tenant=acme&owner=ann'), [ann])
    assert.deepEqual(await ids(root, 'GET /admin?owner=ann'), [none])
    assert.deepEqual(await ids(root, 'GET /admin?tenant=nobody'), [])
    assert.equal((await send(root, 'GET /admin?owner=acme%1Fann')).status, 400)
    assert.equal((await send(ANN, 'GET /tasks?tenant=bolt')).status, 400)
    assert.equal((await send(ANN, 'GET /admin?tenant=acme')).status, 403)
    const shown = await (await send(root, `GET /admin/${ann}`)).json<{ owner: string, tenant: string }>()
    assert.deepEqual([shown.owner, shown.tenant], ['ann', 'acme'])
    const { items } = await tasks.list({ tenant: 'acme', status: 'completed' })
    assert.deepEqual(items.map(({ taskId }) => taskId).sort(), [ann, bob, own].sort())
    const first = await tasks.list({ tenant: 'acme', limit: 2 })
    const second = await tasks.list({ tenant: 'acme', limit: 2, cursor: first.next })
    assert.equal(new Set([...first.items, ...second.items].map(({ taskId }) => taskId)).size, 3)
    await assert.rejects(tasks.list({ tenant: 'bolt', limit: 2, cursor: first.next }), { code: 'invalid_cursor' })
    const path = 'POST /admin/forget?status=completed&task=work&tenant=acme'
    for (const [query, forgotten] of [['&owner=bob', 1], ['', 2]] as const) {
      const response = await send(root, `${path}${query}`, { body: {} })
      const { taskId } = await response.json<{ taskId: string }>()
      const end = await tasks.wait(taskId, { timeoutMs: 20_000 })
      assert.deepEqual(end?.status === 'completed' && end.result, { forgotten, failed: 0, failures: [] })
    }
    assert.deepEqual(await ids(root, 'GET /admin?tenant=acme'), [])
    assert.deepEqual(await ids(root, 'GET /admin?owner=ann'), [none])
  })
})
