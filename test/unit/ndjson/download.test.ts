import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { describe, test } from 'node:test'
import * as zlib from 'node:zlib'
import { RESPONSE_CODINGS } from '../../../src/http/body/encode.js'
import { isHttpError } from '../../../src/http/errors.js'
import type { HttpResponse } from '../../../src/http/exchange.js'
import { NDJSON_TYPES } from '../../../src/http/headers/ndjson-types.js'
import { jsonSchema } from '../../../src/schema/json-schema.js'
import { ndjsonBytes, ndjsonDownload, type DownloadOptions, type RecordSource } from '../../../src/ndjson/download.js'
import { fakeRequest } from '../kit/request.js'
import { keepAlive } from '../../kit/wait.js'

const people = [{ id: 0, name: 'Ann' }, { id: 1, name: 'Zoë' }, { id: 2, name: 'a\nb' }]
const LINES = '{"id":0,"name":"Ann"}\n{"id":1,"name":"Zoë"}\n{"id":2,"name":"a\\nb"}\n'

type Headers = Record<string, string>

async function get(
  options: DownloadOptions<object> | RecordSource<object>,
  headers: Headers = {},
  method = 'GET',
): Promise<HttpResponse> {
  const handler = ndjsonDownload('records' in options ? options : { records: () => options })
  return (await handler({ ...fakeRequest({ headers }), method })) as HttpResponse
}

function iteratorOf({ body }: HttpResponse): AsyncIterator<Uint8Array> {
  return (body as AsyncIterable<Uint8Array>)[Symbol.asyncIterator]()
}

async function bytesOf({ body }: HttpResponse): Promise<Buffer> {
  const pieces: Uint8Array[] = []
  for await (const piece of body as AsyncIterable<Uint8Array>) pieces.push(piece)
  return Buffer.concat(pieces)
}

const textOf = async (response: HttpResponse): Promise<string> => (await bytesOf(response)).toString()

async function* slowly<T>(items: readonly T[]): AsyncGenerator<T> {
  for (const item of items) {
    await new Promise((resolve) => setImmediate(resolve))
    yield item
  }
}

describe('sources of a download', () => {
  const sources: Record<string, () => RecordSource<object>> = {
    'an array': () => people,
    'a generator': function* () { yield* people },
    'a set of arrays and records': () => new Set([people.slice(0, 2), people[2] as object]),
    'an async generator': () => slowly(people),
    'an async generator of arrays': () => slowly([people.slice(0, 1), [], people.slice(1)]),
    'a Node stream in object mode': () => Readable.from(people),
    'a web stream': () => new ReadableStream({
      start(controller) {
        for (const each of people) controller.enqueue(each)
        controller.close()
      }
    }) as AsyncIterable<object>,
  }
  for (const [name, make] of Object.entries(sources)) {
    test(`SPEC 4.9.format.2, 4.9.format.3: ${name} gives lines and an array`, async () => {
      assert.equal(await textOf(await get(make())), LINES)
      assert.deepEqual(JSON.parse(await textOf(await get(make(), { accept: 'application/json' }))), people)
    })
  }
  test('without records give an empty body, or an empty array', async () => {
    for (const none of [[], slowly([]), [[], []]]) {
      assert.equal(await textOf(await get(none)), '')
      assert.deepEqual(JSON.parse(await textOf(await get(none, { accept: 'application/json' }))), [])
    }
  })
  test('fail with a record that is not an object', async () => {
    for (const wrong of [1, 'text', null, undefined, true]) {
      await assert.rejects(textOf(await get([wrong as unknown as object])), TypeError)
      await assert.rejects(textOf(await get(slowly([wrong as unknown as object]))), TypeError)
    }
    await assert.rejects(textOf(await get([{ toJSON: () => undefined }])), TypeError)
  })
  test('are rejected if they are not iterable', async () => {
    await assert.rejects(get({ records: () => 7 as unknown as object[] }), TypeError)
  })
  test('return many records completely and in order, in chunks of some 64 KiB', async () => {
    const many = Array.from({ length: 50_000 }, (_, id) => ({ id, pad: 'x'.repeat(id % 90) }))
    const expected = many.map((each) => `${JSON.stringify(each)}\n`).join('')
    const lists = [many.slice(0, 30_000), many.slice(30_000)]
    for (const source of [many, lists, slowly(lists), Readable.from(many)] as RecordSource<object>[]) {
      const sizes: number[] = []
      let text = ''
      for await (const piece of (await get(source)).body as AsyncIterable<Uint8Array>) {
        sizes.push(piece.byteLength)
        text += Buffer.from(piece).toString()
      }
      assert.ok(text === expected)
      assert.ok(sizes.slice(0, -1).every((size) => size >= 65_536 && size < 66_000), sizes.join())
    }
  })
})

describe('the type and the coding of a download', () => {
  test('SPEC 4.9.format.1: are NDJSON for its type, without Accept and for any type, and JSON if the client prefers JSON', async () => {
    for (const [accept, type] of [
      [undefined, 'application/x-ndjson'],
      ['*/*', 'application/x-ndjson'],
      ['application/x-ndjson', 'application/x-ndjson'],
      ['text/html, */*;q=0.1', 'application/x-ndjson'],
      ['application/json', 'application/json'],
      ['application/x-ndjson;q=0.5, application/json', 'application/json'],
    ] as const) {
      const answer = await get(people, accept === undefined ? {} : { accept })
      assert.equal(answer.headers['content-type'], type)
      assert.equal(answer.headers['vary'], 'Accept, Accept-Encoding')
    }
    await assert.rejects(
      get(people, { accept: 'text/csv' }),
      (error: unknown) => isHttpError(error) && error.status === 406,
    )
  })
  test('include every type in use for NDJSON, and types that an option adds', async () => {
    for (const type of NDJSON_TYPES) {
      const answer = await get(people, { accept: `${type}, application/json;q=0.9` })
      assert.deepEqual([answer.headers['content-type'], await textOf(answer)], [type, LINES])
    }
    const moreMediaTypes = ['application/vnd.acme.users']
    const answer = await get({ records: () => people, moreMediaTypes }, { accept: 'application/vnd.acme.users' })
    assert.deepEqual([answer.headers['content-type'], await textOf(answer)], ['application/vnd.acme.users', LINES])
    for (const wrong of ['application/jsonl', ['jsonl'], ['text/plain; charset=utf-8'], [7]]) {
      assert.throws(() => ndjsonDownload({ records: () => people, moreMediaTypes: wrong as string[] }), TypeError)
    }
  })
  const decoders: Record<string, (bytes: Uint8Array) => Buffer> = {
    gzip: zlib.gunzipSync,
    br: zlib.brotliDecompressSync,
  }
  const zstd = (zlib as unknown as Record<string, ((bytes: Uint8Array) => Buffer) | undefined>)['zstdDecompressSync']
  if (zstd) decoders['zstd'] = zstd

  const makeDecoder: Record<string, typeof zlib.createGunzip | undefined> = {
    gzip: zlib.createGunzip, br: zlib.createBrotliDecompress,
    zstd: (zlib as unknown as Record<string, typeof zlib.createGunzip>)['createZstdDecompress'],
  }

  test('are tested for each coding that is offered', () => {
    assert.deepEqual(Object.keys(decoders).sort(), [...RESPONSE_CODINGS].sort())
  })
  for (const [coding, decode] of Object.entries(decoders)) {
    test(`can use the coding ${coding}`, async () => {
      const answer = await get(slowly(people), { 'accept-encoding': `${coding}, x` })
      assert.equal(answer.headers['content-encoding'], coding)
      assert.equal(decode(await bytesOf(answer)).toString(), LINES)
      const many = Array.from({ length: 20_000 }, (_, id) => ({ id }))
      const large = decode(await bytesOf(await get(many, { 'accept-encoding': coding }))).toString()
      assert.ok(large === many.map((each) => `${JSON.stringify(each)}\n`).join(''))
    })
    test(`can use ${coding}, which sends the records of a slow source without waiting for more`, async (t) => {
      // The package's own timers keep no process alive; here is no connection that would.
      keepAlive(t)
      let goOn: () => void = () => undefined
      async function* source(): AsyncGenerator<object> {
        yield { first: true }
        await new Promise<void>((resolve) => { goOn = resolve })
        yield { last: true }
      }
      const body = iteratorOf(await get(source(), { 'accept-encoding': coding }))
      const engine = makeDecoder[coding]?.()
      assert.ok(engine)
      let text = ''
      engine.on('data', (bytes: Buffer) => { text += bytes.toString() })
      while (!text.includes('\n')) {
        const { value } = await body.next() as { value: Uint8Array }
        await new Promise((resolve) => engine.write(value, resolve))
        await new Promise((resolve) => setImmediate(resolve))
      }
      assert.equal(text, '{"first":true}\n')
      goOn()
      for (let step = await body.next(); step.done !== true; step = await body.next()) engine.write(step.value)
      await new Promise((resolve) => { engine.on('end', resolve).end() })
      assert.equal(text, '{"first":true}\n{"last":true}\n')
    })
  }
  test('are identity without a preference or if all codings are rejected, and a 406 if identity is rejected', async () => {
    for (const field of [undefined, 'gzip;q=0', 'identity, gzip;q=0.5', 'unknown']) {
      const { headers } = await get(people, field === undefined ? {} : { 'accept-encoding': field })
      assert.equal(headers['content-encoding'], undefined)
    }
    await assert.rejects(
      get(people, { 'accept-encoding': 'identity;q=0' }),
      (error: unknown) => isHttpError(error) && error.status === 406,
    )
    assert.throws(() => ndjsonDownload({ records: () => people, codings: ['compress'] }), TypeError)
  })
  test('are only for GET and HEAD, and other methods are declined', async () => {
    assert.equal(await ndjsonDownload({ records: () => people })({ ...fakeRequest(), method: 'POST' }), undefined)
  })
})

describe('the schema of a download', () => {
  const schema = { type: 'object', properties: { id: { type: 'integer' } } }
  test('makes a serialiser that leaves out properties that the schema does not name', async () => {
    for (const each of [schema, jsonSchema(schema)]) {
      assert.equal(await textOf(await get({ records: () => people, schema: each })), '{"id":0}\n{"id":1}\n{"id":2}\n')
    }
  })
  test('is rejected if it has no JSON Schema', () => {
    const mute = { '~standard': { version: 1, vendor: 'test', validate: (value: unknown) => ({ value }) } } as const
    assert.throws(() => ndjsonDownload({ records: () => people, schema: mute }), /pass a JSON Schema/)
  })
})

describe('the source of a download', () => {
  class Watched implements AsyncIterable<object> {
    given = 0
    closed = 0
    constructor(private readonly hangAt = Infinity) {}
    [Symbol.asyncIterator](): AsyncIterator<object> {
      return {
        next: () =>
          this.given >= this.hangAt
            ? new Promise(() => undefined)
            : Promise.resolve({ done: false, value: { id: this.given++, pad: 'x'.repeat(1000) } }),
        return: () => {
          this.closed++
          return Promise.resolve({ done: true, value: undefined })
        },
      }
    }
  }

  for (const coding of ['identity', 'gzip']) {
    const headers = { 'accept-encoding': coding }
    test(`in ${coding} stops within a chunk when the client disconnects`, async () => {
      const source = new Watched()
      const body = iteratorOf(await get(source, headers))
      if (coding === 'identity') await body.next()
      else void body.next()
      await new Promise((resolve) => setTimeout(resolve, 20))
      await body.return?.()
      const { given } = source
      assert.ok(given <= (coding === 'identity' ? 200 : 5000), `${given} records`)
      await new Promise((resolve) => setTimeout(resolve, 20))
      assert.deepEqual([source.given, source.closed], [given, 1])
    })
    test(`in ${coding} stops when the client disconnects while the source has nothing`, async (t) => {
      keepAlive(t)
      const source = new Watched(3)
      const body = iteratorOf(await get(source, headers))
      await body.next()
      const waiting = body.next()
      await body.return?.()
      assert.equal(source.closed, 1)
      for (let step = await waiting; step.done !== true; step = await body.next());
    })
    test(`in ${coding} stops if nothing was read, as for HEAD`, async () => {
      const stream = Readable.from(people)
      const body = iteratorOf(await get(stream, headers, 'HEAD'))
      await body.return?.()
      assert.ok(stream.destroyed)
    })
    test(`in ${coding} is read at most one chunk before a client that does not read`, async () => {
      const source = new Watched()
      const body = iteratorOf(await get(source, headers))
      assert.equal(source.given, 0)
      await body.next()
      await new Promise((resolve) => setTimeout(resolve, 20))
      assert.ok(source.given < 5000, `${source.given} records`)
      await body.return?.()
    })
    test(`in ${coding} fails the body with its own error if it fails midway`, async () => {
      async function* source(): AsyncGenerator<object> {
        yield* Array.from({ length: 5000 }, () => ({ pad: 'x'.repeat(100) }))
        throw new Error('midway')
      }
      await assert.rejects(textOf(await get(source(), headers)), { message: 'midway' })
      function* atOnce(): Generator<object> {
        yield { a: 1 }
        throw new Error('at once')
      }
      await assert.rejects(textOf(await get(atOnce(), headers)), { message: 'at once' })
    })
  }
  test('is closed if it is synchronous', async () => {
    let closed = false
    function* source(): Generator<object> {
      try {
        for (;;) yield { pad: 'x'.repeat(1000) }
      } finally {
        closed = true
      }
    }
    const body = iteratorOf(await get(source()))
    await body.next()
    await body.return?.()
    assert.ok(closed)
  })
  const one = { pad: 'x'.repeat(1000) }
  function* single(): Generator<object> {
    for (;;) yield one
  }
  function* lists(): Generator<object[]> {
    for (;;) yield new Array<object>(100_000).fill(one)
  }
  for (const [name, source] of [
    ['that comes by and by', () => new Watched()],
    ['of single records', single],
    ['of very long lists', lists],
  ] as const) {
    test(`lets other work run while an endless source ${name} is read at full speed`, async () => {
      const body = iteratorOf(await get(source()))
      let turns = 0
      setImmediate(() => {
        turns++
      })
      const late = Date.now() + 5000
      while (turns === 0 && Date.now() < late) await body.next()
      assert.equal(turns, 1)
      await body.return?.()
    })
  }
})

test('ndjsonBytes writes the same bytes on each platform', async () => {
  const text = async (bytes: AsyncIterable<Uint8Array>): Promise<string> => {
    let all = ''
    for await (const piece of bytes) all += Buffer.from(piece).toString()
    return all
  }
  assert.equal(await text(ndjsonBytes(people)), LINES)
  assert.equal(
    await text(ndjsonBytes(people, { schema: { type: 'object', properties: { id: { type: 'integer' } } } })),
    '{"id":0}\n{"id":1}\n{"id":2}\n',
  )
})

describe('a record that JSON cannot write', () => {
  const recursive = { type: 'object', properties: { child: { $ref: '#' } } }
  const deep = (levels: number): object => {
    let record: object = {}
    for (let at = 0; at < levels; at++) record = { child: record }
    return record
  }
  for (const schema of [undefined, recursive]) {
    test(`is written or ends the download with a clear error, ${schema ? 'with a recursive schema' : 'without a schema'}`, async () => {
      const options = schema ? { schema } : {}
      const text = async (record: object): Promise<string> => {
        let all = ''
        for await (const piece of ndjsonBytes([record], options)) all += Buffer.from(piece).toString()
        return all
      }
      assert.match(await text(deep(1000)), /^\{"child":/)
      await assert.rejects(text(deep(200_000)), {
        name: 'TypeError',
        message: 'A record is nested too deeply for JSON',
      })
      await assert.rejects(text(new Error('row 7')), /row 7/)
      await assert.rejects(text(Promise.resolve({})), /not a promise/)
    })
  }
})
