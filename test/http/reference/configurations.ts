// Every endpoint of the specification, for the reference server in any configuration, as processes of their own.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { startProcess, type ServerProcess } from '../kit/process.js'
import { Client, TOKENS, type Answer } from '../kit/reference.js'

/** One configuration. */
export interface Configuration {
  readonly env: () => Readonly<Record<string, string>>
  /** Whether requests and tasks are in processes of their own. */
  readonly workerApart?: boolean
}

const LATER = { prefer: 'respond-async' }
const NDJSON = { 'content-type': 'application/x-ndjson' }
const lines = (...records: object[]): string => records.map((record) => `${JSON.stringify(record)}\n`).join('')
type Ask = (method: string, path: string, what?: Parameters<Client['ask']>[2]) => Promise<Answer>

/** A task that was accepted, once it has ended well. */
async function completed(client: Client, { status, headers, text }: Answer, token = 'writer-1'): Promise<Answer> {
  assert.equal(status, 202, text)
  const ended = await client.ended(headers.get('location') ?? '', { token })
  assert.deepEqual([ended.status, ended.json.status ?? ended.json.state], [200, 'completed'], ended.text)
  return ended
}

/**
 * Each endpoint of SPEC 4 and 9; `tag` makes the names of users differ between configurations that
 * share a database.
 */
const endpoints: Record<string, (client: Client, tag: string) => Promise<void>> = {
  'GET /api/users in pages': async (client) => {
    const { status, json } = await client.ask('GET', '/api/users?batch_size=2&start=1')
    assert.deepEqual([status, json.items.map(({ id }: { id: number }) => id)], [200, [2, 3]])
  },
  'POST, GET, PUT, PATCH, DELETE and HEAD of a user': async (client, tag) => {
    const ask: Ask = (...all) => client.ask(...all)
    const made = await ask('POST', '/api/users', { body: { email: `one@${tag}.example` } })
    assert.equal(made.status, 201)
    const path = made.headers.get('location') ?? ''
    assert.equal((await ask('GET', path)).json.role, 'viewer')
    assert.equal((await ask('PUT', path, { body: { email: `two@${tag}.example`, name: 'Two' } })).status, 200)
    assert.equal((await ask('PATCH', path, { body: { role: 'editor' } })).json.role, 'editor')
    assert.equal((await ask('HEAD', path)).status, 200)
    assert.equal((await ask('DELETE', path)).status, 204)
    assert.equal((await ask('GET', path)).status, 404)
  },
  'POST /api/users/bulk, directly': async (client, tag) => {
    const { status, json } = await client.ask('POST', '/api/users/bulk', {
      body: [{ email: `a@${tag}.example` }, { email: 'none' }],
    })
    assert.deepEqual([status, json.summary], [207, { total: 2, succeeded: 1, failed: 1 }])
  },
  'POST /api/users/bulk, in the background': async (client, tag) => {
    const body = [{ email: `b@${tag}.example` }, { email: 'none' }]
    const accepted = await client.ask('POST', '/api/users/bulk', { body, headers: LATER })
    const { json } = await completed(client, accepted)
    assert.deepEqual(json.result.summary, { total: 2, succeeded: 1, failed: 1 })
    const items = await client.ask('GET', `${accepted.headers.get('location') ?? ''}/items`)
    assert.deepEqual([items.status, items.text.trim().split('\n').length], [200, 2])
    const { id } = json.result.items[0] as { id: number }
    assert.equal((await client.ask('GET', `/api/users/${id}`)).json.email, `b@${tag}.example`)
  },
  'PATCH /api/users/bulk-update, directly and in the background': async (client) => {
    const to = (role: string) => ({ updates: [{ userId: 7, role }, { userId: 8, role }] })
    assert.equal((await client.ask('PATCH', '/api/users/bulk-update', { body: to('admin') })).status, 200)
    const { json } = await completed(
      client,
      await client.ask('PATCH', '/api/users/bulk-update', { body: to('editor'), headers: LATER }),
    )
    assert.equal(json.result.summary.succeeded, 2)
    assert.equal((await client.ask('GET', '/api/users/8')).json.role, 'editor')
  },
  'a bulk with an Idempotency-Key is done once': async (client, tag) => {
    const what = { body: [{ email: `once@${tag}.example` }], headers: { 'idempotency-key': `"${tag}"` } }
    const first = await client.ask('POST', '/api/users/bulk', what)
    const second = await client.ask('POST', '/api/users/bulk', what)
    assert.deepEqual([first.status, second.status, second.text], [201, 201, first.text])
  },
  'GET /api/files/large-file, a part': async (client) => {
    const response = await client.open('GET', '/api/files/large-file', { headers: { range: 'bytes=0-9' } })
    assert.deepEqual([response.status, (await response.arrayBuffer()).byteLength], [206, 10])
  },
  'POST /api/long-running-task, directly': async (client) => {
    const { status, json } = await client.ask('POST', '/api/long-running-task', {
      body: { task: 'wait', data: { ms: 1 } },
    })
    assert.deepEqual([status, json.message], [200, 'Waited for 1 ms.'])
  },
  'POST /api/long-running-task, in the background, and its status': async (client) => {
    assert.equal((await completed(client, await client.submit('wait', { ms: 1 }))).json.result.ms, 1)
    const exported = await completed(client, await client.submit('export-users', { role: 'admin' }))
    assert.ok(exported.json.result.count >= 1)
    const [file] = exported.json.files
    const { status, text, headers } = await client.ask('GET', file.url)
    assert.deepEqual([status, file.name, text.length], [200, 'users.ndjson', exported.json.result.bytes])
    assert.equal(headers.get('repr-digest'), file.digest)
  },
  'a task is cancelled': async (client) => {
    const { headers } = await client.submit('wait', { ms: 50_000 })
    assert.equal((await client.ask('DELETE', headers.get('location') ?? '')).status, 200)
  },
  'GET /api/status and GET /admin/tasks': async (client) => {
    const token = 'writer-2'
    const made = []
    for (let at = 0; at < 3; at++)
      made.unshift((await completed(client, await client.submit('wait', { ms: 0 }, { token }), token)).json.taskId)
    const first = await client.ask('GET', '/api/status?task=wait&limit=2', { token })
    const second = await client.ask('GET', first.json.next, { token })
    const ids = [first, second].flatMap(({ json }) => json.items.map(({ taskId }: { taskId: string }) => taskId))
    // Some configurations share a database, so there may be older ones.
    assert.deepEqual(ids.slice(0, 3), made)
    const { json } = await client.ask('GET', '/admin/tasks?owner=wanda&task=wait&limit=3', { token: 'admin-1' })
    assert.deepEqual(json.items.map(({ taskId }: { taskId: string }) => taskId), made)
    const overview = await client.ask('GET', '/admin/overview', { token: 'admin-1' })
    assert.ok(overview.json.counts.completed.count >= 3, overview.text)
  },
  'POST /api/status/{id}/retry, and DELETE of a final task': async (client) => {
    const failed = await client.submit('wait', { ms: 0, fail: true })
    const path = failed.headers.get('location') ?? ''
    assert.equal((await client.ended(path)).json.status, 'failed')
    const again = await client.ask('POST', `${path}/retry`)
    assert.deepEqual([again.status, again.headers.get('location')], [202, path], again.text)
    const ended = await client.ended(path)
    assert.deepEqual([ended.json.status, ended.json.attempts.length], ['failed', 2], ended.text)
    assert.deepEqual(
      [
        (await client.ask('DELETE', path)).status,
        (await client.forget(path)).status,
        (await client.ask('GET', path)).status,
      ],
      [428, 204, 404],
    )
  },
  'POST /start-job and GET /job-status/{id}': async (client) => {
    const { json } = await completed(client, await client.ask('POST', '/start-job', { body: { any: ['job', 'data'] } }))
    assert.equal(json.state, 'completed')
  },
  'POST /start-task and GET /task-status/{id}': async (client) => {
    assert.equal(
      (await completed(client, await client.ask('POST', '/start-task', { body: { taskData: 'a b' } }))).json.result
        .words,
      2,
    )
  },
  'GET /bulk-data': async (client) => {
    const { status, text } = await client.ask('GET', '/bulk-data')
    assert.ok(status === 200 && text.trim().split('\n').length >= 1200)
  },
  'GET /bulk-data, in the background': async (client) => {
    const { json } = await completed(client, await client.ask('GET', '/bulk-data', { headers: LATER }))
    const [file] = json.files
    const { status, text, headers } = await client.ask('GET', file.url)
    assert.deepEqual([status, file.name, headers.get('content-type')], [200, 'users.ndjson', 'application/x-ndjson'])
    const users = text.trim().split('\n').map((line: string) => JSON.parse(line))
    assert.equal(users.length, json.result.records)
    assert.ok(users.length >= 1200 && users.every(({ email }) => typeof email === 'string'))
  },
  'POST /upload-ndjson, directly': async (client, tag) => {
    const { status, json } = await client.ask('POST', '/upload-ndjson', {
      body: `${lines({ email: `l1@${tag}.example` })}bad\n`,
      headers: NDJSON,
    })
    assert.deepEqual([status, json.summary], [200, { total: 2, succeeded: 1, failed: 1 }])
  },
  'POST /upload-ndjson, in the background': async (client, tag) => {
    const body = lines({ email: `l2@${tag}.example` }, { id: 9, name: `Nine of ${tag}` })
    const { json } = await completed(
      client,
      await client.ask('POST', '/upload-ndjson', { body, headers: { ...NDJSON, ...LATER } }),
    )
    assert.deepEqual(json.result.summary, { total: 2, succeeded: 2, failed: 0 })
    assert.equal((await client.ask('GET', '/api/users/9')).json.name, `Nine of ${tag}`)
  },
  'POST /upload-ndjson in pieces, and PATCH of /uploads/{id}': async (client, tag) => {
    for (const headers of [{}, LATER]) {
      const body = lines({ email: `l3@${tag}.example` }, { id: 10, name: `Ten of ${tag}` })
      const created = await client.ask('POST', '/upload-ndjson', {
        body: '',
        headers: { ...NDJSON, ...headers, 'upload-complete': '?0' },
      })
      assert.equal(created.status, 201, created.text)
      const path = created.headers.get('location') ?? ''
      const append = (part: string, at: number, complete: string): Promise<Answer> =>
        client.ask('PATCH', path, {
          body: part,
          headers: {
            'content-type': 'application/partial-upload',
            'upload-offset': String(at),
            'upload-complete': complete,
          },
        })
      assert.equal((await append(body.slice(0, 7), 0, '?0')).status, 204)
      const answer = await append(body.slice(7), 7, '?1')
      const isLater = 'prefer' in headers
      const { summary } = isLater ? (await completed(client, answer)).json.result : answer.json
      assert.deepEqual(summary, { total: 2, succeeded: isLater ? 1 : 2, failed: isLater ? 1 : 0 })
      assert.equal((await client.ask('GET', '/api/users/10')).json.name, `Ten of ${tag}`)
    }
  },
  'each way to choose a version': async (client) => {
    for (const [path, accept] of [
      ['/v2/users', '*/*'],
      ['/users?version=2', '*/*'],
      ['/users', 'application/vnd.longhaul.v2+json'],
      ['/users', 'application/vnd.longhaul+json;version=2'],
    ] as const) {
      const response = await client.open('GET', path, { headers: { accept } })
      assert.deepEqual([response.status, ((await response.json()) as { items: object[] }).items.length], [200, 20])
    }
  },
  'GET / and GET /openapi.json': async (client) => {
    for (const path of ['/', '/openapi.json'])
      assert.equal((await client.ask('GET', path, { token: null })).status, 200)
  },
}

/** The tests of all endpoints in one configuration. */
export function worksWith(name: string, { env, workerApart = false }: Configuration): void {
  describe(`every endpoint works with ${name}`, () => {
    const client = new Client('')
    const processes: ServerProcess[] = []
    before(async () => {
      const settings = { ...env(), AUTH_TOKENS: TOKENS, RATE_LIMIT: '1000000' }
      const server = startProcess({ ...settings, ...workerApart && { WORKER: 'off' } })
      processes.push(server)
      const worker = workerApart ? startProcess({ ...settings, WORKER: 'only' }) : undefined
      if (worker) processes.push(worker)
      client.url = await server.url()
      if (worker) await worker.said(/The worker is ready/)
    })
    after(async () => {
      for (const { child } of processes) child.kill('SIGTERM')
      for (const each of processes) assert.deepEqual([await each.exited, each.err], [{ code: 0, signal: null }, ''])
    })
    for (const [endpoint, check] of Object.entries(endpoints)) {
      test(endpoint, () => check(client, name.replaceAll(/[^a-z]/g, '')))
    }
  })
}
