// What the reference server does with a request that says something nobody reads, or that asks for what nobody has.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { useReference } from '../kit/reference.js'

const client = useReference()

describe('an unknown part of a body', () => {
  test('gets a 400 with its pointer if it is a property', async () => {
    for (const [method, path, body, pointer] of [
      ['POST', '/api/long-running-task', { task: 'wait', data: {}, dta: {} }, '/dta'],
      ['POST', '/api/long-running-task', { 'task': 'wait', 'data': {}, 'a/~b': 1 }, '/a~1~0b'],
      ['POST', '/api/long-running-task', { task: 'wait', data: { sec: 5 } }, '/data/sec'],
      ['POST', '/api/long-running-task', { task: 'checksum', data: { of: 'x' } }, '/data/of'],
      ['POST', '/start-task', { taskData: 'x', callbackURL: 'https://a.example' }, '/callbackURL'],
      ['POST', '/api/users', { email: 'a@b', id: 5 }, '/id'],
      ['POST', '/api/users', { email: 'a@b', age: 5 }, '/age'],
      ['PUT', '/api/users/5', { email: 'a@b', age: 5 }, '/age'],
      ['PATCH', '/api/users/5', { age: 5 }, '/age'],
      ['PATCH', '/api/users/bulk-update', { updates: [{ userId: 1, role: 'viewer' }], dryRun: true }, '/dryRun'],
    ] as const) {
      const { status, json } = await client.ask(method, path, { body })
      assert.deepEqual([path, status, json.code, json.details?.[0].pointer], [path, 400, 'invalid_input', pointer])
    }
    const { json } = await client.ask('PATCH', '/api/users/bulk-update', {
      body: { updates: [{ userId: 1, role: 'viewer', name: 'x' }] },
    })
    assert.deepEqual([json.items[0].status, json.items[0].error.details[0].pointer], [400, '/updates/0/name'])
    const upload = await client.ask('POST', '/upload-ndjson', {
      body: '{"id":1,"nmae":"x"}',
      headers: { 'content-type': 'application/x-ndjson' },
    })
    assert.deepEqual(
      [upload.json.items[0].error.code, upload.json.items[0].error.details[0].pointer],
      ['record_invalid', '/nmae'],
    )
    // Behind a body there is nothing.
    assert.equal((await client.ask('POST', '/start-job', { body: '{"ms":1} {}' })).json.code, 'malformed_json')
  })

  test('gets a 422 if it is a role, in one user and in each of many users', async () => {
    for (const [method, path, body] of [
      ['POST', '/api/users', { email: 'role@a.example', role: 'king' }],
      ['PUT', '/api/users/5', { email: 'role@a.example', role: 'king' }],
      ['PATCH', '/api/users/5', { role: 'king' }],
    ] as const) {
      const { status, json } = await client.ask(method, path, { body })
      assert.deepEqual(
        [status, json.code, json.details],
        [422, 'unprocessable', [{ pointer: '/role', message: 'must be one of admin, editor, viewer' }]],
      )
    }
    const many = await client.ask('POST', '/api/users/bulk', {
      body: [
        { email: 'role1@a.example', role: 'king' },
        { email: 'role2@a.example', role: 'admin' },
      ],
    })
    assert.deepEqual([many.status, many.json.items.map((item: { status: number }) => item.status)], [207, [422, 201]])
    const upload = await client.ask('POST', '/upload-ndjson', {
      body: '{"id":1,"role":"king"}\n{"id":2,"role":"editor"}',
      headers: { 'content-type': 'application/x-ndjson' },
    })
    assert.deepEqual([upload.json.summary.succeeded, upload.json.items[0].error.code], [1, 'unprocessable'])
  })
})

describe('query parameters', () => {
  const strict: readonly (readonly [method: string, path: string])[] = [
    ['GET', '/api/users'],
    ['HEAD', '/api/users'],
    ['POST', '/api/users'],
    ['GET', '/api/users/1'],
    ['PUT', '/api/users/1'],
    ['PATCH', '/api/users/1'],
    ['DELETE', '/api/users/1'],
    ['GET', '/users'],
    ['GET', '/v1/users'],
    ['GET', '/v2/users'],
    ['POST', '/api/users/bulk'],
    ['PATCH', '/api/users/bulk-update'],
    ['GET', '/api/status/x/items'],
    ['GET', '/api/files/large-file'],
    ['POST', '/api/long-running-task'],
    ['GET', '/api/status/x'],
    ['DELETE', '/api/status/x'],
    ['POST', '/start-job'],
    ['GET', '/job-status/x'],
    ['POST', '/start-task'],
    ['GET', '/task-status/x'],
    ['GET', '/bulk-data'],
    ['POST', '/upload-ndjson'],
  ]
  test('get a 400 at every endpoint if they are unknown, and nothing is changed', async () => {
    for (const [method, path] of strict) {
      const { status, json } = await client.ask(
        method,
        `${path}?batchsize=2`,
        ['POST', 'PUT', 'PATCH'].includes(method) ? { body: {} } : {},
      )
      assert.deepEqual([method, path, status], [method, path, 400])
      if (method !== 'HEAD') assert.deepEqual([json.code, json.error.includes('"batchsize"')], ['invalid_query', true])
    }
    assert.equal((await client.ask('GET', '/api/users/1')).status, 200)
    // Who may not ask is not told what may be asked.
    assert.equal((await client.ask('GET', '/api/users?batchsize=2', { token: null })).status, 401)
  })

  test('need a valid value, and may occur only once', async () => {
    for (const query of [
      'batch_size=', 'batch_size=0', 'batch_size=-1', 'batch_size=1e2', 'start=-1', 'start=',
      'start=1&start=1', 'start=%201', 'cursor=x',
    ]) {
      for (const path of ['/api/users', '/v2/users']) {
        const { status, json } = await client.ask('GET', `${path}?${query}`)
        assert.deepEqual([query, status, json.code], [query, 400, 'invalid_query'])
      }
    }
  })

  test('SPEC 4.2: keep version 2 in the links to other pages', async () => {
    for (const [path, accept] of [
      ['/v2/users?', '*/*'],
      ['/users?version=2&', '*/*'],
      ['/users?', 'application/vnd.longhaul.v2+json'],
    ] as const) {
      const { status, json } = await client
        .ask('GET', `${path}batch_size=2&start=3`, { headers: { accept } })
        .then(async (answer) => ({
          ...answer,
          json: JSON.parse(answer.text) as { items: { id: number }[]; next: string },
        }))
      assert.deepEqual([status, json.items.map(({ id }) => id)], [200, [4, 5]])
      const next = JSON.parse((await client.ask('GET', json.next, { headers: { accept } })).text) as {
        items: { id: number }[]
      }
      assert.deepEqual(
        next.items.map(({ id }) => id),
        [6, 7],
      )
    }
  })
})

describe('the Accept header', () => {
  test('gets a 406 for every GET and HEAD if the client accepts none of the types', async () => {
    const { headers } = await client.submit('wait', { ms: 1 })
    const status = headers.get('location') ?? ''
    const id = status.split('/').at(-1) ?? ''
    await client.ended(status)
    for (const path of [
      '/',
      '/openapi.json',
      '/users',
      '/v1/users',
      '/v2/users',
      '/api/users',
      '/api/users/1',
      '/api/files/large-file',
      status,
      `/job-status/${id}`,
      `/task-status/${id}`,
      '/bulk-data',
      '/console/main.js',
    ]) {
      for (const method of ['GET', 'HEAD']) {
        for (const accept of [
          'application/vnd.other.v1+json',
          'image/png, application/json;q=0, text/*;q=0, application/octet-stream;q=0',
        ]) {
          const answer = await client.ask(method, path, { headers: { accept } })
          assert.deepEqual([method, path, accept, answer.status], [method, path, accept, 406])
          if (method === 'GET') {
            const { code, error } = JSON.parse(answer.text) as { code: string; error: string }
            assert.equal(code, 'not_acceptable')
            assert.match(error, /^Accept allows none of the available types: [a-z]+\/[a-z]/, path)
          }
        }
        const { status } = await client.open(method, path, {
          headers: {
            accept: 'application/vnd.other.v1+json, */*;q=0.1',
            ...(path.includes('large') && { range: 'bytes=0-0' }),
          },
        })
        assert.ok(status < 300, `${path} ${status}`)
      }
    }
  })

  test('does not change the JSON of a response to a POST', async () => {
    const { status } = await client.ask('POST', '/start-job', {
      body: { ms: 1 },
      headers: { accept: 'application/vnd.other.v1+json' },
    })
    assert.equal(status, 202)
  })
})

test('responses behind credentials have Cache-Control', async () => {
  const { headers } = await client.submit('wait', { ms: 1 })
  for (const path of [
    '/users',
    '/v1/users',
    '/v2/users',
    '/api/users',
    '/api/users/1',
    '/api/files/large-file',
    headers.get('location') ?? '',
    '/bulk-data',
  ]) {
    const response = await client.open('HEAD', path)
    assert.match(response.headers.get('cache-control') ?? '', /^private/, path)
  }
})
