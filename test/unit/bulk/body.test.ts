import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { bulkCreate, type BulkCreateOptions } from '../../../src/bulk/create.js'
import { memory } from '../../../adapters/memory/index.js'
import { taskEndpoints } from '../../../src/tasks/http/endpoints.js'
import { createTasks } from '../../../src/tasks/tasks.js'
import { fakeRequest } from '../kit/request.js'
import {
  ask, codes, draft, only, people, person, statuses, Users, type Asked, type Draft, type User,
} from '../kit/bulk.js'

const handlerOf = (users: Users, options: Partial<Omit<BulkCreateOptions<User, Draft>, 'background'>> = {}) =>
  bulkCreate<User, Draft>({
    repository: users,
    schema: draft,
    key: ({ email }) => email,
    onError: () => undefined,
    ...options,
  })

/** What is refused, and that nothing was written. */
async function refused(
  asked: Asked,
  options: Partial<Omit<BulkCreateOptions<User, Draft>, 'background'>> = {},
): Promise<[status: number, code: string | undefined]> {
  const users = new Users()
  const { status, json } = await ask(handlerOf(users, options), asked)
  assert.equal(users.users.size, 0)
  assert.equal(json.summary, undefined)
  return [status, json.code]
}

describe('a small body is rejected before anything is written', () => {
  const two = JSON.stringify(people(2))
  const cases: Record<string, [Asked, [number, string], Partial<Omit<BulkCreateOptions<User, Draft>, 'background'>>?]> =
    {
      'no array': [{ body: { updates: [] } }, [400, 'invalid_input']],
      'a text': [{ body: '"x"' }, [400, 'invalid_input']],
      'empty': [{ body: [] }, [400, 'empty_batch']],
      'nothing': [{ body: '' }, [400, 'missing_body']],
      'no JSON': [{ body: `${two.slice(0, -1)},` }, [400, 'malformed_json']],
      'behind the end': [{ body: `${two}]` }, [400, 'malformed_json']],
      'no UTF-8': [{ body: Buffer.from([0x5b, 0x22, 0xff, 0x22, 0x5d]) }, [400, 'malformed_json']],
      '__proto__': [
        { body: `[${JSON.stringify(person(0))},{"__proto__":{"x":1},"name":"a","email":"a@b"}]` },
        [400, 'unsafe_key'],
      ],
      'too many items': [{ body: people(3) }, [413, 'body_too_large'], { maxItems: 2 }],
      'too many bytes': [{ body: people(3) }, [413, 'body_too_large'], { maxBodyBytes: 50 }],
      'too many bytes that nobody announced': [{ pieces: [two] }, [413, 'body_too_large'], { maxBodyBytes: 50 }],
      'a wrong media type': [
        { body: people(1), headers: { 'content-type': 'text/plain' } },
        [415, 'unsupported_media_type'],
      ],
      'a coding that nobody knows': [
        { body: people(1), headers: { 'content-encoding': 'rot13' } },
        [415, 'unsupported_content_coding'],
      ],
      'a coding that is not there': [
        { body: people(1), headers: { 'content-encoding': 'gzip' } },
        [400, 'malformed_coding'],
      ],
      'a bomb': [
        { body: gzipSync(Buffer.alloc(2_000_000, 0x20)), headers: { 'content-encoding': 'gzip' } },
        [413, 'body_too_large'],
        { maxDecodedBytes: 1_500_000 },
      ],
      'a ratio': [
        { body: gzipSync(Buffer.alloc(2_000_000, 0x20)), headers: { 'content-encoding': 'gzip' } },
        [413, 'body_too_large'],
        { maxRatio: 100 },
      ],
    }
  for (const [name, [asked, expected, options]] of Object.entries(cases)) {
    test(`SPEC 8.1: ${name} gets ${expected.join(' ')}`, async () => {
      assert.deepEqual(await refused(asked, options), expected)
    })
  }
})

describe('the body of a bulk request', () => {
  test('may be compressed, arrive in pieces, or be parsed by the application', async () => {
    const body = people(5)
    const text = JSON.stringify(body)
    for (const asked of [
      { body: gzipSync(text), headers: { 'content-encoding': 'gzip' } },
      { pieces: [text.slice(0, 7), text.slice(7, 90), text.slice(90)] },
      { parsed: { value: body } },
      { body, headers: { 'content-type': 'application/vnd.x+json; charset=utf-8' } },
    ] satisfies Asked[]) {
      const users = new Users()
      assert.equal((await ask(handlerOf(users), asked)).status, 201)
      assert.deepEqual(users.emails, body.map(({ email }) => email))
    }
  })
  test('fails only the item with an inexact value: wide integers, 1e309, half of a surrogate pair', async () => {
    const values = [
      '9007199254740992', '-9007199254740993', '1e309', '1e22', '"\\ud800"',
      '{"a":[{"\\udc00":1}]}', '"1234567890123456789"', '0.1', '9007199254740991',
      '"\\ud83d\\ude00"',
    ]
    const body = `[${values.map((value, at) => `{"name":"n","email":"${at}@x","extra":${value}}`).join(',')}]`
    for (const streamAboveBytes of [1_048_576, 10]) {
      const users = new Users()
      const answer = await ask(handlerOf(users, { streamAboveBytes }), { body })
      assert.deepEqual(statuses(answer), [400, 400, 400, 400, 400, 400, 201, 201, 201, 201])
      assert.deepEqual(new Set(codes(answer).slice(0, 6)), new Set(['inexact_value']))
      assert.deepEqual(answer.json.items[0]?.error?.details, [
        { pointer: '/0/extra', message: 'is an integer beyond 2^53 - 1; send it as text' },
      ])
      assert.deepEqual(answer.json.items[5]?.error?.details, [
        { pointer: '/5/extra/a/0', message: 'has a name with half of a surrogate pair' },
      ])
    }
  })
  test('gives an item the last value of a repeated key', async () => {
    const users = new Users()
    await ask(handlerOf(users), { body: '[{"name":"a","email":"a@x","email":"b@x"}]' })
    assert.deepEqual(users.emails, ['b@x'])
  })
  test('fails only the item that is nested too deeply for a schema that recurses', async () => {
    const deep = (value: unknown): boolean => value instanceof Array && value.length > 0 ? deep(value[0]) : true
    const schema = {
      '~standard': {
        version: 1 as const,
        vendor: 'test',
        validate: (value: unknown) => {
          deep((value as { x?: unknown }).x)
          return { value: value as Draft }
        },
      },
    }
    const answer = await ask(handlerOf(new Users(), { schema }), {
      body: `[${JSON.stringify(person(0))},{"name":"a","email":"a@b","x":${'['.repeat(200_000)}${']'.repeat(200_000)}}]`,
    })
    assert.deepEqual(
      [statuses(answer), answer.json.items[1]?.error?.details],
      [[201, 400], [{ pointer: '/1', message: 'is nested too deeply' }]],
    )
  })
  for (const streamAboveBytes of [10, 1_000_000]) {
    test(`fails only the item that is nested too deeply to be written again, with or without a schema (${streamAboveBytes})`, async () => {
      const deep = `{"name":"a","email":"a@b","x":${'['.repeat(20_000)}${']'.repeat(20_000)}}`
      for (const schema of [
        undefined,
        {
          '~standard': {
            version: 1 as const,
            vendor: 'test',
            validate: (value: unknown) => ({ value: value as Draft }),
          },
        },
      ]) {
        const users = new Users()
        const answer = await ask(handlerOf(users, { streamAboveBytes, ...(schema && { schema }) }), {
          body: `[${JSON.stringify(person(0))},${deep}]`,
        })
        assert.deepEqual(
          [statuses(answer), answer.json.items[1]?.error?.details],
          [[201, 400], [{ pointer: '/1', message: 'is nested too deeply' }]],
        )
        assert.equal(users.emails.length, 1)
      }
    })
  }
})

describe('a large body of a bulk request', () => {
  const streamed = { streamAboveBytes: 1000, batchSize: 50 }
  const many = people(3000)
  const text = JSON.stringify(many)

  test('is written in batches, and its report covers all items', async () => {
    const users = new Users()
    const answer = await ask(handlerOf(users, streamed), { pieces: [text.slice(0, 9), text.slice(9)] })
    assert.deepEqual([answer.status, answer.json.summary], [201, { total: 3000, succeeded: 3000, failed: 0 }])
    assert.deepEqual(answer.json.items.map(({ index, id }) => [index, id]), many.map((_, at) => [at, at + 1]))
    assert.deepEqual(users.emails, many.map(({ email }) => email))
  })
  test('is written without duplicate items', async () => {
    const users = new Users()
    const answer = await ask(handlerOf(users, streamed), { body: [...many, person(7)] })
    assert.deepEqual(
      [answer.status, answer.json.items.at(-1)?.error?.code, users.users.size],
      [207, 'duplicate_item', 3000],
    )
  })
  test('gets a 400 with the position of the error if it is malformed, and nothing is written', async () => {
    for (const atomic of [false, true]) {
      const users = new Users()
      const broken = `${text.slice(0, 150_000)}}} ${text.slice(150_000)}`
      const answer = await ask(handlerOf(users, { ...streamed, atomic }), { body: broken })
      assert.deepEqual(
        [answer.status, answer.json.code, answer.json.summary, users.calls],
        [400, 'malformed_json', undefined, []],
      )
      const { offset } = answer.json.position as { offset: number }
      assert.ok(offset >= 149_000 && offset <= 150_100)
    }
  })
  test('reports each item of an atomic request separately, and changes nothing', async () => {
    const users = new Users(1)
    const bad = [...many.slice(0, 2000), { name: 'taken', email: 'user-1@example.com' }, ...many.slice(2000), {}]
    for (const repository of [users, only(users, 'create', 'transaction')]) {
      const answer = await ask(bulkCreate<User, Draft>({ repository, schema: draft, atomic: true, ...streamed }), {
        body: bad,
      })
      assert.deepEqual(
        [answer.status, answer.json.code, answer.json.summary],
        [409, 'conflict', { total: 3002, succeeded: 0, failed: 3002 }],
      )
      assert.deepEqual(answer.json.items.map(({ index }) => index), bad.map((_, at) => at))
      assert.deepEqual(
        answer.json.items.filter(({ status }) => status !== 424).map(({ index, status }) => [index, status]),
        [
          [2000, 409],
          [3001, 400],
        ],
      )
      assert.deepEqual(users.emails, ['user-1@example.com'])
    }
  })
  test('is one transaction if it is atomic and all items are valid', async () => {
    const users = new Users()
    const good = await ask(handlerOf(users, { ...streamed, atomic: true }), { body: many })
    assert.deepEqual([good.status, good.json.summary.succeeded, users.users.size], [201, 3000, 3000])
  })
  test('gets a 413 for too many items or an item that is too large, and nothing is written', async () => {
    for (const [options, body] of [
      [{ maxItems: 2999 }, many], [{ maxItemBytes: 500 }, [...many, { name: 'a'.repeat(500), email: 'a@b' }]],
    ] as const) {
      for (const atomic of [false, true]) {
        const users = new Users()
        const answer = await ask(handlerOf(users, { ...streamed, ...options, atomic }), { body })
        assert.deepEqual(
          [answer.status, answer.json.code, answer.json.summary, users.calls],
          [413, 'body_too_large', undefined, []],
        )
      }
    }
  })
  test('is closed when the reader stops early', async () => {
    let closed = false
    const fake = fakeRequest({ headers: { 'content-type': 'application/json' } })
    const stream = async function* (): AsyncGenerator<Uint8Array> {
      try {
        for (let at = 0; at < 1000; at++) yield Buffer.from(`${at === 0 ? '[' : ''}${'{},'.repeat(1000)}`)
        assert.fail('all of it was read')
      } finally {
        closed = true
      }
    }
    const handler = handlerOf(new Users(), { maxDirectBytes: 5000 })
    await assert.rejects(async () => handler({ ...fake, body: { ...fake.body, stream } }), { code: 'body_too_large' })
    assert.equal(closed, true)
  })
  test('is an empty batch if it is an empty array with much white space', async () => {
    assert.deepEqual(await refused({ body: `[${' '.repeat(5000)}]` }, streamed), [400, 'empty_batch'])
  })
})

describe('maxDirectBytes of a bulk request', () => {
  const text = JSON.stringify(people(100))
  const half = { maxDirectBytes: Math.floor(text.length / 2) }
  const gzipped = { body: gzipSync(text), headers: { 'content-encoding': 'gzip' } }

  test('gets a 413 for a larger body, with and without Content-Length or a content coding, and nothing is written', async () => {
    for (const asked of [{ body: text }, { pieces: [text.slice(0, 3000), text.slice(3000)] }, gzipped]) {
      for (const streamAboveBytes of [0, 1_000_000]) {
        const users = new Users()
        const answer = await ask(handlerOf(users, { ...half, streamAboveBytes }), asked)
        assert.deepEqual([answer.status, answer.json.code, users.calls], [413, 'body_too_large', []])
      }
    }
  })
  test('allows a body of exactly that size', async () => {
    for (const asked of [{ body: text }, { pieces: [text.slice(0, 3000), text.slice(3000)] }, gzipped]) {
      assert.equal((await ask(handlerOf(new Users(), { maxDirectBytes: text.length }), asked)).status, 201)
    }
  })
  test('makes a task of a larger body with the option background', async (t) => {
    const { store, engine, blobs } = memory()
    const users = new Users()
    const bulk = bulkCreate<User, Draft>({
      repository: users,
      schema: draft,
      ...half,
      background: { name: 'create', blobs },
    })
    const tasks = createTasks({ store, engine, definitions: [bulk.task] })
    t.after(() => tasks.close())
    const handler = bulk.handler(taskEndpoints(tasks, { statusPath: '/status/{id}', owner: 'anyone' }))
    for (const asked of [{ body: text }, { pieces: [text.slice(0, 3000), text.slice(3000)] }, gzipped]) {
      users.users.clear()
      const answer = await ask(handler, asked)
      assert.equal(answer.status, 202)
      await tasks.wait((answer.json as unknown as { taskId: string }).taskId, { timeoutMs: 20_000 })
      assert.deepEqual(users.emails, people(100).map(({ email }) => email))
    }
    const broken = await ask(handler, { body: `${text},` })
    assert.deepEqual([broken.status, broken.json.code], [400, 'malformed_json'])
  })
})
