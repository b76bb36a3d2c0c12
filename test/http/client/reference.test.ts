// The client on the reference server.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import { createClient, isTaskFailed, verifyCallback, type Client } from '../../../src/client/index.js'
import { parseTokens } from '../../../examples/reference-server/auth.js'
import { callbackSecrets } from '../../../examples/reference-server/callbacks.js'
import { LARGE_FILE_BYTES, largeFile } from '../../../examples/reference-server/large-file.js'
import { startServer, type RunningServer } from '../../../examples/reference-server/server.js'
import type { wait } from '../../../examples/reference-server/tasks/wait.js'
import { TcpProxy } from '../../servers/tcp-proxy.js'
import { receiver } from '../kit/callbacks.js'
import { TOKENS } from '../kit/reference.js'

const tokens = parseTokens(TOKENS)
const headers = { authorization: 'Bearer writer-1' }
let server: RunningServer
let proxy: TcpProxy
let client: Client
/** By way of the proxy, whose `heal` resets what is open. */
let far: Client

before(async () => {
  server = await startServer({ host: '127.0.0.1', port: 0, tokens, callbackAllow: ['127.0.0.1'] })
  proxy = await TcpProxy.to(Number(new URL(server.url).port))
  client = createClient({ baseUrl: server.url, headers })
  far = createClient({ baseUrl: `http://127.0.0.1:${proxy.port}`, headers, retry: { baseMs: 10 } })
})
after(async () => {
  proxy.close()
  await server.stop()
})

const waiting = (from: Client) =>
  from.task<typeof wait>('/api/long-running-task', { body: (data) => ({ task: 'wait', data }) })

describe('tasks of the reference server', () => {
  test('are followed by events, which show progress', async () => {
    const task = await waiting(client).submit({ ms: 1500 })
    const done: number[] = []
    const result = await task.result({ onProgress: ({ progress }) => { done.push(progress?.done ?? 0) } })
    assert.deepEqual(result, { message: 'Waited for 1500 ms.', ms: 1500 })
    assert.ok(done.length >= 3, String(done))
    assert.deepEqual([...done].sort((a, b) => a - b), done)
  })

  test('are followed by long polls', async () => {
    const polling = createClient({ baseUrl: server.url, headers, events: false, poll: { baseMs: 1 } })
    const done: number[] = []
    await waiting(polling).run({ ms: 2500 }, { onProgress: ({ progress }) => { done.push(progress?.done ?? 0) } })
    assert.ok(done.length >= 3, String(done))
  })

  test('survive a reset in the middle of the events', async () => {
    const task = await waiting(far).submit({ ms: 600 })
    let resets = 0
    const result = await task.result({
      onProgress: ({ status }) => {
        if (status === 'processing' && resets++ < 3) proxy.heal()
      },
    })
    assert.equal(result.ms, 600)
    assert.ok(resets >= 3)
  })

  test('may have their result in the first response', async () => {
    for (const how of [{ wait: 5 }, { background: false }]) {
      const task = await waiting(client).submit({ ms: 20 }, how)
      assert.equal(task.statusUrl, undefined)
      assert.equal((await task.result()).ms, 20)
    }
  })

  test('run once for one key', async () => {
    const ids = await Promise.all(
      [1, 2].map(async () => (await waiting(client).submit({ ms: 10 }, { idempotencyKey: 'twice' })).taskId),
    )
    assert.equal(ids[0], ids[1])
  })

  test('are resumed and cancelled by another client, and the first client notices the cancel', async () => {
    const task = await waiting(client).submit({ ms: 60_000 })
    const failed = task.result().then(() => assert.fail(), (error: unknown) => error)
    const other = createClient({ baseUrl: server.url, headers }).resume(JSON.stringify(task))
    assert.equal((await other.cancel()).status, 'cancelled')
    assert.equal((await other.cancel()).status, 'cancelled')
    const error = await failed
    assert.ok(isTaskFailed(error))
    assert.equal(error.code, 'task_cancelled')
  })

  test('reject if their work fails or is rejected', async () => {
    await assert.rejects(waiting(client).run({ ms: 1, fail: true }), { name: 'TaskFailedError', code: 'told_to_fail' })
    await assert.rejects(waiting(client).run({ ms: -1 }), {
      name: 'ClientError',
      status: 400,
      code: 'invalid_input',
      details: [{ pointer: '/data/ms', message: 'must be >= 0' }],
    })
    await assert.rejects(client.run('/api/long-running-task', { task: 'export-users', data: { role: 'king' } }), {
      status: 422,
      code: 'unprocessable',
    })
    const stranger = createClient({ baseUrl: server.url })
    await assert.rejects(waiting(stranger).submit({}), { status: 401, code: 'unauthorized' })
    const task = await waiting(client).submit({ ms: 1 })
    const other = createClient({
      baseUrl: server.url,
      headers: () => Promise.resolve({ authorization: 'Bearer writer-2' }),
    })
    await assert.rejects(other.resume(task.toJSON()).result(), { status: 404, code: 'task_not_found' })
  })

  test('can be followed in job format', async () => {
    const job = await client.submit<{ bytes: number }>('/start-job', { ms: 50 })
    assert.match(job.statusUrl ?? '', /\/job-status\//)
    assert.equal((await job.result()).bytes, 9)
    assert.equal((await job.status()).status, 'completed')
  })

  test('send a callback that the client verifies', async (t) => {
    const { url, seen } = await receiver(t)
    const task = await client.submit('/start-task', { taskData: 'some words', callbackUrl: url })
    await task.result()
    for (;;) {
      const { callback } = await task.status()
      if (callback?.state === 'delivered') break
      await new Promise((resolve) => { setTimeout(resolve, 10) })
    }
    const [first] = seen
    const { type, data } = await verifyCallback<{ words: number }>(
      first?.body ?? '',
      first?.headers ?? {},
      callbackSecrets(tokens).get('will') ?? '',
    )
    assert.deepEqual([type, data.taskId, data.result?.words], ['task.completed', task.taskId, 2])
    await assert.rejects(
      verifyCallback(first?.body ?? '', first?.headers ?? {}, callbackSecrets(tokens).get('wanda') ?? ''),
      { code: 'callback_signature_invalid' },
    )
  })
})

describe('records of the reference server', () => {
  const users = (count: number) =>
    Array.from({ length: count }, (_, at) => ({ name: `Newcomer ${at}`, email: `newcomer${at}-${count}@example.com` }))

  test('are downloaded and uploaded', async () => {
    let count = 0
    for await (const { id } of client.records<{ id: number }>('/bulk-data')) if (Number.isInteger(id)) count++
    assert.ok(count >= 1000, String(count))
    const report = await client.upload('/upload-ndjson', [...users(3), { name: 'No email' }])
    assert.deepEqual(report.summary, { total: 4, succeeded: 3, failed: 1 })
    assert.equal(report.items?.[0]?.line, 4)
  })

  test('can be uploaded in the background', async () => {
    const report = await client.upload('/upload-ndjson', () => users(1500), { background: true })
    assert.deepEqual(report.summary, { total: 1500, succeeded: 1500, failed: 0 })
  })
})

describe('the large file of the reference server', () => {
  const expected = createHash('sha256')
  for (const bytes of largeFile()) expected.update(bytes)
  const checksum = expected.digest('hex')

  test('arrives whole although the connection breaks again and again', async () => {
    const hash = createHash('sha256')
    let breaks = 0
    let last = 0
    const download = far.download('/api/files/large-file', {
      onProgress: ({ received, total }) => {
        last = received
        assert.equal(total, LARGE_FILE_BYTES)
      },
    })
    for await (const bytes of download) {
      hash.update(bytes)
      if (last > (breaks + 1) * 10_000_000) {
        breaks++
        proxy.heal()
      }
    }
    assert.equal(breaks, 6)
    assert.equal(hash.digest('hex'), checksum)
  })

  test('is paused, and resumed by another client', async () => {
    const hash = createHash('sha256')
    const first = client.download('/api/files/large-file')
    for await (const bytes of first) {
      hash.update(bytes)
      if (first.received > 5_000_000) break
    }
    const second = far.download('/api/files/large-file', { from: first.position })
    for await (const bytes of second) hash.update(bytes)
    assert.deepEqual(
      [second.received, second.type, hash.digest('hex')],
      [LARGE_FILE_BYTES, 'application/octet-stream', checksum],
    )
  })
})
