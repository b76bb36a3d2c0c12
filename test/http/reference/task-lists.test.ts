// Lists of tasks on the reference server, retry, redelivery and deletion at each status path, and what operators see.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { describe, test } from 'node:test'
import { setTimeout as turn } from 'node:timers/promises'
import { parseTokens } from '../../../examples/reference-server/auth.js'
import { startServer } from '../../../examples/reference-server/server.js'
import { Client, TOKENS, useReference, type Answer } from '../kit/reference.js'
import { listen } from '../../kit/listen.js'

const server = useReference()

/** Submits a task as `token` and waits until it is final. Resolves with its id. */
async function done(token: string, data: object): Promise<string> {
  const { headers, json } = await server.submit('wait', data, { token })
  await server.ended(headers.get('location') ?? '', { token })
  return json.taskId as string
}

const idsOf = ({ json }: Answer): string[] =>
  json.items.map((item: { taskId?: string; id?: string }) => item.taskId ?? item.id)

describe('the lists of own tasks', () => {
  test('show the same tasks at each status path, with the status words of this path', async () => {
    const ids = [await done('writer-1', { ms: 0 }), await done('writer-1', { ms: 0, fail: true })].reverse()
    for (const path of ['/api/status', '/job-status', '/task-status']) {
      assert.deepEqual(idsOf(await server.ask('GET', path)), ids, path)
      assert.deepEqual(idsOf(await server.ask('GET', `${path}?status=failed`)), ids.slice(0, 1), path)
      assert.equal((await server.ask('HEAD', path)).status, 200, path)
      const next = (await server.ask('GET', `${path}?limit=1`)).json.next as string
      assert.ok(next.startsWith(`${path}?limit=1&cursor=`), next)
      assert.deepEqual(idsOf(await server.ask('GET', next)), ids.slice(1), path)
      assert.deepEqual(idsOf(await server.ask('GET', path, { token: 'writer-2' })), [], path)
      assert.equal((await server.ask('GET', next, { token: 'writer-2' })).json.code, 'invalid_cursor', path)
      assert.equal((await server.ask('GET', `${path}?colour=red`)).status, 400, path)
    }
  })
})

describe('a final task', () => {
  const paths = ['/api/status', '/job-status', '/task-status']

  test('is retried at each status path, only by its owner and not while it runs', async () => {
    for (const path of paths) {
      const id = await done('writer-1', { ms: 300, fail: true })
      const own = `${path}/${id}`
      assert.equal((await server.ask('POST', `${own}/retry`, { token: 'writer-2' })).status, 404, path)
      assert.equal((await server.ask('POST', `${own}/retry`, { token: 'admin-1' })).status, 404, path)
      const again = await server.ask('POST', `${own}/retry`)
      assert.deepEqual([again.status, again.headers.get('location')], [202, own], path)
      assert.equal((await server.ask('POST', `${own}/retry`)).json.code, 'task_not_final', path)
      await server.ended(own)
    }
  })

  test('is deleted at each status path, only by its owner', async () => {
    for (const path of paths) {
      const own = `${path}/${await done('writer-1', { ms: 0 })}`
      assert.equal((await server.ask('DELETE', own, { token: 'writer-2' })).status, 404, path)
      assert.equal((await server.forget(own)).status, 204, path)
      assert.equal((await server.ask('GET', own)).status, 404, path)
    }
  })

  test('has its callback sent again at each status path, only by its owner', async () => {
    const received: unknown[] = []
    const receiver = createServer((req, res) => {
      received.push(req.headers['webhook-id'])
      res.writeHead(204).end()
    })
    const { url: callbackUrl, close } = await listen(receiver)
    const own = await startServer({
      host: '127.0.0.1', port: 0, tokens: parseTokens(TOKENS), callbackAllow: ['127.0.0.1'],
    })
    try {
      const client = new Client(own.url)
      const body = { task: 'wait', data: { ms: 0 }, callbackUrl }
      const { json } = await client.ask('POST', '/api/long-running-task', {
        body,
        headers: { prefer: 'respond-async' },
      })
      const id = json.taskId as string
      for (const [at, path] of paths.entries()) {
        while ((await client.ask('GET', `/api/status/${id}`)).json.callback.state !== 'delivered') await turn(20)
        assert.equal(received.length, at + 1)
        assert.equal((await client.ask('POST', `${path}/${id}/callback`, { token: 'writer-2' })).status, 404, path)
        assert.equal((await client.ask('POST', `${path}/${id}/callback`)).status, 202, path)
      }
      while (received.length < paths.length + 1) await once(receiver, 'request')
    } finally {
      await own.stop()
      await close()
    }
  })
})

describe('the lists of operators', () => {
  test('are rejected for other users, with any query', async () => {
    for (const path of ['/admin/tasks', '/admin/tasks?owner=will', '/admin/tasks?bad', '/admin/overview']) {
      for (const token of ['reader-1', 'writer-1']) {
        const { status, json } = await server.ask('GET', path, { token })
        assert.deepEqual([status, json.reason], [403, 'needs_admin'], path)
      }
      assert.equal((await server.ask('GET', path, { token: null })).status, 401, path)
    }
    assert.equal((await server.ask('GET', '/admin/overview?bad=1', { token: 'admin-1' })).status, 400)
  })

  test('have the owner of each task, and counts by status', async () => {
    const token = 'admin-1'
    const before = (await server.ask('GET', '/admin/overview', { token })).json.counts
    const id = await done('writer-2', { ms: 0, fail: true })
    const { items: [newest] } = (await server.ask('GET', '/admin/tasks?limit=1', { token })).json
    assert.deepEqual([newest.taskId, newest.owner, newest.status], [id, 'wanda', 'failed'])
    const after = (await server.ask('GET', '/admin/overview', { token })).json.counts
    assert.deepEqual([after.failed.count - before.failed.count, after.completed.count - before.completed.count], [1, 0])
  })

  test('name the oldest task that waits for a run', async () => {
    const token = 'admin-1'
    assert.equal((await server.ask('GET', '/admin/overview', { token })).json.oldestQueued, undefined)
    // Ten run at a time, so two more wait.
    const submitted = []
    for (let at = 0; at < 12; at++) submitted.push((await server.submit('wait', { ms: 60_000 })).json.taskId)
    const { oldestQueued, counts } = (await server.ask('GET', '/admin/overview', { token })).json
    assert.deepEqual(
      [oldestQueued.taskId, oldestQueued.task, oldestQueued.owner, counts.queued.count],
      [submitted[10], 'wait', 'will', 2],
    )
    for (const id of submitted) await server.ask('DELETE', `/api/status/${id as string}`)
  })
})
