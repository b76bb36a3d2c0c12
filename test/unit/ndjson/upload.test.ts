import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { httpError, isHttpError } from '../../../src/http/errors.js'
import type { HttpResponse } from '../../../src/http/exchange.js'
import { errorResponse } from '../../../src/http/respond.js'
import { jsonSchema } from '../../../src/schema/json-schema.js'
import { readUploadOptions, type UploadOptions } from '../../../src/ndjson/upload-options.js'
import { ndjsonUpload } from '../../../src/ndjson/upload.js'
import type { UploadResult } from '../../../src/ndjson/index.js'
import { fakeRequest, type Fake } from '../kit/request.js'

interface User { id: number, name: string }

const NDJSON = { 'content-type': 'application/x-ndjson' }
const TYPES = [
  'application/x-ndjson', 'application/ndjson', 'application/jsonl', 'application/x-jsonl', 'application/jsonlines',
  'application/x-jsonlines', 'application/json-lines', 'text/x-ndjson',
]
const user = jsonSchema<User>({ type: 'object', required: ['id'], properties: { id: { type: 'integer' } } })

async function post(
  options: Partial<Omit<UploadOptions<User>, 'background'>>,
  fake: Fake,
): Promise<{ response: HttpResponse; batches: User[][]; lines: number[][] }> {
  const batches: User[][] = []
  const lines: number[][] = []
  const handler = ndjsonUpload<User>({
    write: (records, context) => {
      batches.push(records)
      lines.push([...context.lines])
    },
    ...options,
  })
  const response = (await handler(fakeRequest({ headers: NDJSON, ...fake }))) as HttpResponse
  return { response, batches, lines }
}

const resultOf = ({ body }: HttpResponse): UploadResult => JSON.parse(body as string) as UploadResult
const codeOf = (code: string) => (error: unknown): boolean => isHttpError(error) && error.code === code

async function linesOf({ body }: HttpResponse): Promise<unknown[]> {
  let text = ''
  for await (const piece of body as AsyncIterable<string>) text += piece
  return text.trim().split('\n').map((line) => JSON.parse(line) as unknown)
}

describe('the response to an upload', () => {
  test('SPEC 4.9.upload.2, 7.5: has counts, and the numbers of the failed lines, from 1', async () => {
    const { response, batches, lines } = await post(
      { schema: user },
      { body: '{"id":0}\n{"id":\n\n{"id":"x"}\n{"id":7}' },
    )
    assert.equal(response.status, 200)
    assert.deepEqual(batches, [[{ id: 0 }, { id: 7 }]])
    assert.deepEqual(lines, [[1, 5]])
    assert.deepEqual(resultOf(response), {
      message: 'Read 4 records: 2 succeeded, 2 failed.',
      summary: { total: 4, succeeded: 2, failed: 2 },
      items: [
        {
          line: 2,
          status: 400,
          error: {
            code: 'line_malformed',
            message: 'The line is not valid JSON: at character 7, a value was expected.',
            excerpt: '{"id":',
          },
        },
        {
          line: 4,
          status: 400,
          error: {
            code: 'record_invalid',
            message: 'The record is not valid.',
            excerpt: '{"id":"x"}',
            details: [{ pointer: '/id', message: 'must be integer' }],
          },
        },
      ],
    })
  })
  test('is a 200 even without lines, or if all lines were bad', async () => {
    assert.deepEqual(resultOf((await post({}, { body: '' })).response).summary, { total: 0, succeeded: 0, failed: 0 })
    const { response, batches } = await post({}, { body: 'x\ny\n' })
    assert.equal(response.status, 200)
    assert.deepEqual([resultOf(response).summary, batches], [{ total: 2, succeeded: 0, failed: 2 }, []])
  })
  test('keeps the first errors by line, whatever their kind', async () => {
    const body = Array.from({ length: 2000 }, (_, at) => (at % 2 === 0 ? '{"id":"no"}' : 'bad')).join('\n')
    const { summary, items } = resultOf((await post({ schema: user, maxErrors: 5 }, { body })).response)
    assert.deepEqual(summary, { total: 2000, succeeded: 0, failed: 2000 })
    assert.deepEqual(items.map(({ line }) => line), [1, 2, 3, 4, 5])
  })
  test('lists a hundred faults by default', async () => {
    for (const body of ['bad\n', '{}\n']) {
      const { summary, items } = resultOf((await post({ schema: user }, { body: body.repeat(150) })).response)
      assert.deepEqual([summary.failed, items.length], [150, 100], body)
    }
  })
  test('varies with what the client accepts and prefers', async () => {
    for (const accept of ['application/json', 'application/x-ndjson']) {
      assert.equal(
        (await post({}, { headers: { ...NDJSON, accept }, body: '{"id":1}' })).response.headers['vary'],
        'Accept, Prefer',
        accept,
      )
    }
  })
  test('reports the outcome of each record', async () => {
    const write: UploadOptions<User>['write'] = (records) => records.map(({ id }) => (
      id === 2 ? { error: { code: 'taken', message: 'This id is taken.' } } : id === 3 ? { status: 201, id } : undefined
    ))
    const body = '{"id":1}\n{"id":2}\n{"id":3}\n'
    const { response } = await post({ write }, { body })
    assert.deepEqual(resultOf(response).summary, { total: 3, succeeded: 2, failed: 1 })
    assert.deepEqual(resultOf(response).items, [
      { line: 2, status: 422, error: { code: 'taken', message: 'This id is taken.', excerpt: '{"id":2}' } },
    ])

    const streamed = (await post({ write }, { body, headers: { ...NDJSON, accept: 'application/x-ndjson' } })).response
    assert.equal(streamed.headers['content-type'], 'application/x-ndjson')
    assert.deepEqual(await linesOf(streamed), [
      { line: 1, status: 200 },
      { line: 2, status: 422, error: { code: 'taken', message: 'This id is taken.', excerpt: '{"id":2}' } },
      { line: 3, status: 201, id: 3 },
      { message: 'Read 3 records: 2 succeeded, 1 failed.', summary: { total: 3, succeeded: 2, failed: 1 } },
    ])
  })
  test('has every line in order if it is streamed, including bad lines', async () => {
    const body = Array.from({ length: 3000 }, (_, at) => (at % 3 === 0 ? 'bad' : `{"id":${at}}`)).join('\n')
    const { response } = await post(
      { maxErrors: 2, batchSize: 7 },
      { body, headers: { ...NDJSON, accept: 'application/x-ndjson' } },
    )
    const lines = await linesOf(response) as { line: number; status: number }[]
    assert.equal(lines.length, 3001)
    assert.ok(
      lines.slice(0, -1).every(({ line, status }, at) => line === at + 1 && status === (at % 3 === 0 ? 400 : 200)),
    )
  })
  test('has a 400 for each line that the schema rejects if it is streamed, with the errors of the line', async () => {
    const { response, batches } = await post(
      { schema: user },
      { body: '{"id":1}\n{"id":"x"}\n', headers: { ...NDJSON, accept: 'application/x-ndjson' } },
    )
    assert.deepEqual(await linesOf(response), [
      { line: 1, status: 200 },
      {
        line: 2,
        status: 400,
        error: {
          code: 'record_invalid',
          message: 'The record is not valid.',
          excerpt: '{"id":"x"}',
          details: [{ pointer: '/id', message: 'must be integer' }],
        },
      },
      { message: 'Read 2 records: 1 succeeded, 1 failed.', summary: { total: 2, succeeded: 1, failed: 1 } },
    ])
    assert.deepEqual(batches, [[{ id: 1 }]])
  })
})

describe('the batches of an upload', () => {
  test('SPEC 4.9.format.4: have batchSize records, in order, and each is written before the next', async () => {
    let busy = false
    const sizes: number[] = []
    const write = async (records: User[]): Promise<void> => {
      assert.ok(!busy)
      busy = true
      sizes.push(records.length)
      await new Promise((resolve) => setImmediate(resolve))
      busy = false
    }
    const body = Array.from({ length: 25 }, (_, id) => `{"id":${id}}\n`).join('')
    await post({ write, batchSize: 10 }, { body })
    assert.deepEqual(sizes, [10, 10, 5])
  })
  test('are smaller when the records are large', async () => {
    const body = `{"id":1,"pad":"${'x'.repeat(400_000)}"}\n`.repeat(8)
    const { batches } = await post({}, { body })
    assert.ok(batches.length >= 2, `${batches.length}`)
    assert.ok(batches.every(({ length }) => length <= 4))
  })
})

describe('the media types of an upload', () => {
  test('are those in use for NDJSON, those of a source, and those that an option adds', async () => {
    const moreMediaTypes = ['application/VND.acme.users']
    const source = { mediaTypes: ['text/x-log'], read: async function* () { yield { id: 1 } } }
    const statusOf = (options: Partial<UploadOptions<User>>, type: string): Promise<number | undefined> => (
      post(options, { headers: { 'content-type': type }, body: '{"id":1}' })
        .then(({ response }) => response.status, (error: unknown) => (isHttpError(error) ? error.status : undefined))
    )
    for (const [options, type, status] of [
      [{ moreMediaTypes }, 'application/vnd.acme.users', 200], [{ moreMediaTypes }, 'application/jsonl', 200],
      [{}, 'application/vnd.acme.users', 415], [{ source, moreMediaTypes }, 'application/vnd.acme.users', 200],
      [{ source, moreMediaTypes }, 'text/x-log', 200], [{ source, moreMediaTypes }, 'application/x-ndjson', 415],
    ] as const) assert.equal(await statusOf(options, type), status, type)
  })
  test('are rejected if they are not media types', () => {
    for (const moreMediaTypes of ['application/jsonl', ['jsonl'], ['text/plain; charset=utf-8'], [7]]) {
      assert.throws(
        () => ndjsonUpload({ write: () => undefined, moreMediaTypes: moreMediaTypes as string[] }),
        TypeError,
      )
    }
  })
  test('are those in use for streamed results, if Accept names one', async () => {
    for (const [accept, type] of [
      ['application/jsonl', 'application/jsonl'],
      ['application/x-ndjson, application/jsonl;q=0.5', 'application/x-ndjson'],
      ['application/json, application/jsonl;q=0.5', 'application/json'],
      ['text/*', 'application/json'],
      ['*/*', 'application/json'],
    ] as const) {
      const { response } = await post({}, { headers: { ...NDJSON, accept }, body: '{"id":1}' })
      assert.equal(response.headers['content-type'], type, accept)
    }
  })
})

describe('an upload ends', () => {
  test('at a media type that is not NDJSON, before anything is read', async () => {
    for (const type of ['application/json', 'text/plain', 'application/x-ndjson; charset=latin1']) {
      await assert.rejects(async () => post({}, { headers: { 'content-type': type } }), (error: unknown) => (
        isHttpError(error) && error.status === 415 && error.headers['accept'] === TYPES.join(', ')
      ))
    }
    for (const type of ['Application/X-NDJSON; charset="UTF-8"', ...TYPES]) {
      assert.equal((await post({}, { headers: { 'content-type': type }, body: '{}' })).response.status, 200)
    }
  })
  test('at its limits: Content-Length, bytes, decoded bytes, lines', async () => {
    await assert.rejects(
      async () => post({ maxBodyBytes: 10 }, { headers: { ...NDJSON, 'content-length': '11' } }),
      codeOf('body_too_large'),
    )
    await assert.rejects(post({ maxBodyBytes: 10 }, { body: '{"id":1}\n{"id":2}\n' }), codeOf('body_too_large'))
    await assert.rejects(post({ maxLines: 2 }, { body: '{"id":1}\n{"id":2}\n{"id":3}\n' }), codeOf('body_too_large'))
    const headers = { ...NDJSON, 'content-encoding': 'gzip' }
    await assert.rejects(
      post({ maxDecodedBytes: 1000 }, { headers, body: gzipSync('{"id":1}\n'.repeat(1000)) }),
      codeOf('body_too_large'),
    )
  })
  test('at a Content-Length above the limit, but not at a lower one', async () => {
    const posted = async (length: number, options: Partial<Omit<UploadOptions<User>, 'background'>>): Promise<number> =>
      (await post(options, { headers: { ...NDJSON, 'content-length': String(length) }, body: '{"id":1}\n' })).response
        .status
    for (const [most, options] of [[10, { maxBodyBytes: 10 }], [16 * 2 ** 30, {}]] as const) {
      assert.equal(await posted(most, options), 200)
      await assert.rejects(posted(most + 1, options), codeOf('body_too_large'))
    }
    assert.deepEqual(readUploadOptions({ write: () => undefined }).limits, {
      maxBodyBytes: 16 * 2 ** 30,
      maxDecodedBytes: 16 * 2 ** 30,
      maxRatio: 250,
    })
  })
  test('SPEC 4.9.upload.3: where its gzip data are cut off, and the response lists the written records', async () => {
    const headers = { ...NDJSON, 'content-encoding': 'gzip' }
    const whole = gzipSync(Array.from({ length: 200_000 }, (_, id) => `{"id":${id}}\n`).join(''))
    assert.deepEqual(resultOf((await post({}, { headers, body: whole })).response).summary, {
      total: 200_000,
      succeeded: 200_000,
      failed: 0,
    })
    let answer: HttpResponse | undefined
    await assert.rejects(post({}, { headers, body: whole.subarray(0, -9) }), (error: unknown) => {
      answer = errorResponse(error, fakeRequest())
      return true
    })
    const body = JSON.parse(answer?.body as string) as UploadResult & { code: string; error: string }
    assert.deepEqual([answer?.status, body.code, typeof body.error], [400, 'incomplete_body', 'string'])
    assert.ok(body.summary.succeeded > 100_000)
  })
  test('at a write that throws, with the masked error and the report, and onError receives the error', async () => {
    let calls = 0
    const write = (): void => {
      if (++calls === 2) throw new Error('password=secret')
    }
    const body = '{"id":1}\n{"id":2}\n{"id":3}\n'
    await assert.rejects(post({ write, batchSize: 1 }, { body }), (error: unknown) => {
      assert.ok(isHttpError(error))
      assert.equal((error.cause as Error).message, 'password=secret')
      const text = errorResponse(error, fakeRequest()).body as string
      assert.ok(!text.includes('secret'))
      assert.deepEqual((JSON.parse(text) as UploadResult).summary, { total: 1, succeeded: 1, failed: 0 })
      return error.status === 500
    })
  })
  test('at a write that throws an HttpError, with its details and the report', async () => {
    const details = [{ pointer: '/id', message: 'is of another tenant' }]
    const write = ([first]: User[]): void => {
      if (first?.id === 2) throw httpError('conflict', { details })
    }
    await assert.rejects(post({ write, batchSize: 1 }, { body: '{"id":1}\n{"id":2}\n' }), (error: unknown) => {
      const { status, body } = errorResponse(error, fakeRequest())
      const answer = JSON.parse(body as string) as UploadResult & { details: unknown }
      assert.deepEqual([status, answer.details, answer.summary], [409, details, { total: 1, succeeded: 1, failed: 0 }])
      return true
    })
  })
  test('with the error as the last line, if it is streamed', async () => {
    const headers = { ...NDJSON, accept: 'application/x-ndjson' }
    const long = Array.from({ length: 20_000 }, (_, id) => `{"id":${id}}\n`).join('')
    const lines = (await linesOf((await post({ maxLines: 15_000 }, { headers, body: long })).response)) as {
      code?: string
      summary?: object
    }[]
    assert.equal(lines.at(-1)?.code, 'body_too_large')
    assert.ok(lines.at(-1)?.summary)
    const { response } = await post({ write: () => { throw new Error('secret') } }, { headers, body: long })
    await assert.rejects(linesOf(response), { message: 'secret' })
  })
  test('with an ordinary error response if it is streamed and fails before the first result', async () => {
    const { response } = await post(
      { maxBodyBytes: 20 },
      { headers: { ...NDJSON, accept: 'application/x-ndjson' }, body: '{"id":1}\n'.repeat(3) },
    )
    await assert.rejects(linesOf(response), codeOf('body_too_large'))
  })
  test('with a masked error of the application if it is streamed, and onError receives the error unchanged', async () => {
    const body = Array.from({ length: 20_000 }, (_, id) => `{"id":${id}}\n`).join('')
    const write = (users: User[]): void => {
      if (users.some(({ id }) => id === 15_000)) throw new Error('secret')
    }
    const { response } = await post({ write }, { headers: { ...NDJSON, accept: 'application/x-ndjson' }, body })
    let text = ''
    await assert.rejects(
      async () => {
        for await (const piece of response.body as AsyncIterable<string>) text += piece
      },
      { message: 'secret' },
    )
    const last = JSON.parse(text.trim().split('\n').at(-1) as string) as { code: string; summary: { failed: number } }
    assert.deepEqual([last.code, last.summary.failed, text.includes('secret')], ['internal_error', 0, false])
  })
  test('with details of each error of a record that has many errors', async () => {
    const properties = Object.fromEntries(Array.from({ length: 9 }, (_, at) => [`p${at}`, { type: 'integer' }]))
    const many = Object.fromEntries(Object.keys(properties).map((name) => [name, 'x']))
    const { response } = await post(
      { schema: jsonSchema<User>({ type: 'object', properties }) },
      { body: JSON.stringify(many) },
    )
    assert.equal(resultOf(response).items[0]?.error?.details?.length, 9)
  })
  test('with an error of the application if the outcomes do not fit the records', async () => {
    await assert.rejects(post({ write: () => [] }, { body: '{"id":1}' }), /0 outcomes for 1 records/)
  })
})

describe('the upload handler', () => {
  test('rejects invalid options at construction', () => {
    const write = (): undefined => undefined
    for (const wrong of [
      { batchSize: 0 },
      { maxErrors: -1 },
      { maxBodyBytes: 0 },
      { maxRatio: NaN },
      { maxLines: 0 },
      { maxLineBytes: 0 },
      { write: undefined },
    ]) {
      assert.throws(
        () => ndjsonUpload({ write, ...wrong } as Omit<UploadOptions, 'background'>),
        TypeError,
        JSON.stringify(wrong),
      )
    }
  })
  test('declines other methods', () => {
    assert.equal(ndjsonUpload({ write: () => undefined })({ ...fakeRequest(), method: 'GET' }), undefined)
  })
  test('fails a record that is nested too deeply, and no other record', async () => {
    const schema = jsonSchema<User>({
      $defs: { any: { type: 'object', properties: { a: { $ref: '#/$defs/any' } } } },
      $ref: '#/$defs/any',
    })
    const deep = `${'{"a":'.repeat(200_000)}1${'}'.repeat(200_000)}`
    const { response } = await post({ schema, maxLineBytes: 1 << 22 }, { body: `{"id":1}\n${deep}\n{"id":2}\n` })
    assert.deepEqual(resultOf(response).summary, { total: 3, succeeded: 2, failed: 1 })
  })
})
