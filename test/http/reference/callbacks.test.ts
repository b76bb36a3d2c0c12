// SPEC 4.8: POST /start-task of the reference server.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { Webhook } from 'standardwebhooks'
import { parseTokens } from '../../../examples/reference-server/auth.js'
import { callbackSecrets } from '../../../examples/reference-server/callbacks.js'
import { ConfigError, readConfig } from '../../../examples/reference-server/config.js'
import { startServer, type RunningServer } from '../../../examples/reference-server/server.js'
import { receiver } from '../kit/callbacks.js'
import { Client, TOKENS } from '../kit/reference.js'
import { eventually } from '../../kit/wait.js'

const tokens = parseTokens(TOKENS)
const client = new Client('')
let server: RunningServer | undefined
before(async () => {
  server = await startServer({ host: '127.0.0.1', port: 0, tokens, callbackAllow: ['127.0.0.1'] })
  client.url = server.url
})
after(() => server?.stop())

const start = (body: unknown, headers = {}) => client.ask('POST', '/start-task', { body, headers })

describe('POST /start-task', () => {
  test('SPEC 4.8, 2.7: gets a 202 with and without a preference, and its status can be polled', async () => {
    for (const headers of [{}, { prefer: 'respond-async' }, { prefer: 'wait=5' }]) {
      const { status, headers: fields, json } = await start({ taskData: 'some text' }, headers)
      assert.equal(status, 202, 'not accepted')
      assert.deepEqual(
        [fields.get('location'), fields.get('content-location')],
        [`/task-status/${json.taskId}`, `/task-status/${json.taskId}`],
        'wrong place',
      )
      assert.deepEqual([json.status, typeof json.message], ['processing', 'string'], 'wrong format')
      const ended = await client.ended(`/task-status/${json.taskId}`)
      assert.deepEqual(
        [ended.json.status, ended.json.result.words, 'callback' in ended.json],
        ['completed', 2, false],
        'wrong end',
      )
      assert.ok(
        Date.parse(ended.json.finishedAt) - Date.parse(ended.json.createdAt) < 1000,
        'takes longer than a second',
      )
    }
  })

  test('SPEC 4.8, 6.1: calls callbackUrl when the task has finished, signed for its owner', async (t) => {
    const { url, seen } = await receiver(t)
    const { json } = await start({ taskData: 'x', callbackUrl: url })
    await eventually(
      async () => (await client.ask('GET', `/task-status/${json.taskId}`)).json.callback?.state === 'delivered',
    )
    const [first] = seen
    const secret = callbackSecrets(tokens).get('will') ?? ''
    const payload = new Webhook(secret).verify(first?.body ?? '', first?.headers ?? {}) as {
      type: string
      data: { taskId: string }
    }
    assert.deepEqual([payload.type, payload.data.taskId], ['task.completed', json.taskId], 'wrong payload')
    const other = callbackSecrets(tokens).get('wanda') ?? ''
    assert.throws(
      () => new Webhook(other).verify(first?.body ?? '', first?.headers ?? {}),
      'signed for another subject',
    )
  })

  test('SPEC 2.7: gets a 400 without taskData, or with a callbackUrl that cannot be called', async () => {
    const missing = await start({ callbackUrl: 'https://example.com/' })
    assert.deepEqual(
      [missing.status, missing.json.code, missing.json.details[0].pointer],
      [400, 'invalid_input', '/taskData'],
      'wrong error',
    )
    for (const [callbackUrl, code] of [
      [7, 'invalid_callback_url'],
      [null, 'invalid_callback_url'],
      ['/x', 'invalid_callback_url'],
      ['http://10.0.0.1/', 'callback_url_forbidden'],
    ]) {
      const { status, json } = await start({ taskData: 'x', callbackUrl })
      assert.deepEqual([status, json.code], [400, code], String(callbackUrl))
      assert.doesNotMatch(json.error as string, /CALLBACK_ALLOW|httpSender/)
    }
    assert.equal((await client.ask('POST', '/start-task', { token: null, body: {} })).status, 401, 'open to everybody')
    assert.equal(
      (await client.ask('POST', '/start-task', { token: 'reader-1', body: {} })).status,
      403,
      'open to readers',
    )
  })
})

describe('other submissions on the reference server', () => {
  test('accept a callbackUrl for a task, and reject it for a synchronous request', async (t) => {
    const { url, seen } = await receiver(t)
    const task = { task: 'wait', data: { ms: 0 }, callbackUrl: url }
    const direct = await client.ask('POST', '/api/long-running-task', { body: task })
    assert.deepEqual([direct.status, direct.json.code], [400, 'callback_needs_async'], 'a callback was dropped')
    assert.equal(
      (await client.ask('POST', '/api/long-running-task', { body: task, headers: { prefer: 'respond-async' } })).status,
      202,
      'not accepted',
    )
    await eventually(() => seen.length === 1)
  })

  test('make one task and one callback with one Idempotency-Key', async (t) => {
    const { url, seen } = await receiver(t)
    const send = () => start({ taskData: 'x', callbackUrl: url }, { 'idempotency-key': '"once-1"' })
    const [one, two] = [await send(), await send()]
    assert.equal(one.json.taskId, two.json.taskId, 'two tasks')
    await eventually(
      async () => (await client.ask('GET', `/task-status/${one.json.taskId}`)).json.callback?.state === 'delivered',
    )
    assert.equal(seen.length, 1, 'two callbacks')
  })
})

test('invalid settings are rejected with a message that says what to do', () => {
  assert.deepEqual(
    readConfig({ CALLBACK_ALLOW: '10.0.0.0/8, hooks.example' }).callbackAllow,
    ['10.0.0.0/8', 'hooks.example'],
    'not read',
  )
  assert.throws(() => readConfig({ CALLBACK_ALLOW: '10.0.0.0/99' }), ConfigError, 'taken')
  assert.throws(() => readConfig({ CALLBACK_SECRET: 'secret' }), ConfigError, 'taken')
  assert.throws(() => readConfig({ CALLBACK_SECRET: 'whsec_YQ==' }), ConfigError, 'a short one was taken')
  const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
  assert.equal(readConfig({ CALLBACK_SECRET: secret }).callbackSecret, secret, 'not read')
})
