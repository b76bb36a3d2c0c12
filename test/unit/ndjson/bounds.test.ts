import assert from 'node:assert/strict'
import { describe, mock, test } from 'node:test'
import { MemoryBlobs } from '../../../adapters/memory/index.js'
import { isHttpError } from '../../../src/http/errors.js'
import type { HttpResponse } from '../../../src/http/exchange.js'
import { RecordText } from '../../../src/ndjson/record-text.js'
import { LineReader } from '../../../src/ndjson/line-reader.js'
import type { UploadOptions } from '../../../src/ndjson/upload-options.js'
import { ndjsonUpload } from '../../../src/ndjson/upload.js'
import type { UploadResult } from '../../../src/ndjson/index.js'
import { readRecords } from '../../../src/ndjson/line-reader.js'
import { syncPieces } from '../../../src/ndjson/record-text.js'
import { uploadOperation } from '../../../src/ndjson/upload.js'
import { jsonSchema } from '../../../src/schema/json-schema.js'
import type { Schema } from '../../../src/schema/schema.js'
import { testContext } from '../../../src/testing/index.js'
import { fakeRequest } from '../kit/request.js'

interface User { id: number }

async function post(
  options: Partial<Omit<UploadOptions<User>, 'background'>>,
  body: string | Buffer,
  accept = 'application/json',
): Promise<HttpResponse> {
  const handler = ndjsonUpload<User>({ write: () => undefined, ...options })
  return (await handler(
    fakeRequest({ headers: { 'content-type': 'application/x-ndjson', accept }, body }),
  )) as HttpResponse
}

async function* given(...pieces: (string | Buffer)[]): AsyncGenerator<Uint8Array> {
  for (const piece of pieces) yield Buffer.from(piece as string)
}

describe('the options of an upload', () => {
  const write = () => undefined
  const made = (options: object): unknown => ndjsonUpload({ write, ...options })

  test('may have the smallest and the largest valid value', () => {
    for (const options of [
      { batchSize: 1 },
      { maxErrors: 0 },
      { maxErrors: 10_000 },
      { maxLines: 1 },
      { maxLines: Infinity },
      { maxLineBytes: 1 },
      { maxLineBytes: 2 ** 28 },
    ]) {
      assert.doesNotThrow(() => made(options), JSON.stringify(options))
    }
  })

  test('are rejected for other values', () => {
    for (const [name, values] of Object.entries({
      batchSize: [0, -1, 1.5, NaN, Infinity, '5'],
      maxErrors: [-1, 0.5, 10_001, NaN, Infinity, '5'],
      maxLines: [0, 0.5, NaN],
      maxLineBytes: [0, 1.5, 2 ** 28 + 1, NaN],
    })) {
      for (const value of values)
        assert.throws(() => made({ [name]: value }), new RegExp(name), `${name} ${String(value)}`)
    }
  })
})

describe('the limits of an upload', () => {
  test('allow exactly maxLines lines', async () => {
    assert.equal((await post({ maxLines: 2 }, '{"id":1}\n{"id":2}\n')).status, 200)
    await assert.rejects(
      post({ maxLines: 2 }, '{"id":1}\n{"id":2}\n{"id":3}'),
      (error) => isHttpError(error) && error.status === 413,
    )
  })

  test('allow a line of 1 MiB by default', () => {
    const line = (bytes: number): Buffer => Buffer.from(`{"a":"${'x'.repeat(bytes - 8)}"}\n`)
    const reader = new LineReader()
    assert.equal(reader.read(line(1_048_576)).records.length, 1)
    assert.deepEqual(reader.read(line(1_048_577)).errors.map(({ code }) => code), ['line_too_long'])
  })

  test('list the written records if the client fails, which is not reported to onError', async () => {
    await assert.rejects(post({ maxLines: 1, batchSize: 1 }, '{"id":1}\n{"id":2}'), (error) => {
      assert.ok(isHttpError(error))
      assert.deepEqual([error.cause, Object.keys(error.members ?? {})], [undefined, ['summary', 'items']])
      return true
    })
  })
})

describe('an asynchronous schema', () => {
  test('is awaited for each line in turn', async () => {
    const schema: Schema<User> = {
      '~standard': {
        version: 1,
        vendor: 'test',
        validate: async (value) =>
          (value as User).id === 2 ? { issues: [{ message: 'is 2' }] } : { value: value as User },
      },
    }
    const batches: User[][] = []
    const response = await post(
      {
        schema,
        write: (records) => {
          batches.push(records)
        },
      },
      '{"id":1}\n{"id":2}\n{"id":3}',
    )
    const { summary, items } = JSON.parse(response.body as string) as UploadResult
    assert.deepEqual(
      [summary, items.map(({ line, error }) => [line, error?.code]), batches],
      [{ total: 3, succeeded: 2, failed: 1 }, [[2, 'record_invalid']], [[{ id: 1 }, { id: 3 }]]],
    )
  })
})

test('a streamed upload keeps the id of a rejected record, and gives none to a record without id', async () => {
  const write: UploadOptions<User>['write'] = (records) =>
    records.map(({ id }) => ({ ...(id === 1 && { id: 'old' }), error: { code: 'taken', message: 'Taken.' } }))
  const { body } = await post({ write }, '{"id":1}\n{"id":2}', 'application/x-ndjson')
  let text = ''
  for await (const piece of body as AsyncIterable<string>) text += piece
  const lines = text.trim().split('\n').map((line) => JSON.parse(line) as object)
  assert.deepEqual(lines.slice(0, 2), [
    { line: 1, status: 422, id: 'old', error: { code: 'taken', message: 'Taken.', excerpt: '{"id":1}' } },
    { line: 2, status: 422, error: { code: 'taken', message: 'Taken.', excerpt: '{"id":2}' } },
  ])
})

describe('lines that are not UTF-8', () => {
  test('are reported with their beginning', () => {
    const { errors, records } = new LineReader().read(
      Buffer.concat([Buffer.from('{"a":1}\nxy'), Buffer.from([0xff]), Buffer.from('z\n{"a":2}\n')]),
    )
    assert.deepEqual(
      errors.map(({ line, code, message, excerpt }) => [line, code, message.includes('UTF-8'), excerpt]),
      [[2, 'line_not_utf8', true, 'xy\ufffdz']],
    )
    assert.deepEqual(records, [{ a: 1 }, { a: 2 }])
    const first = new LineReader().read(Buffer.from([0xff, 0x0a, 0x7b, 0x7d, 0x0a]))
    assert.deepEqual([first.errors.length, first.records], [1, [{}]])
  })
})

test('a chunk without the end of a line makes no batch', async () => {
  const sizes: number[] = []
  for await (const { records } of readRecords(given('{"a"', ':1}', '\n', '\n\n', '{"a":2}'))) sizes.push(records.length)
  assert.deepEqual(sizes, [1, 1])
})

describe('available records', () => {
  const records = Array.from({ length: 4000 }, (_, id) => ({ id, text: 'x'.repeat(100) }))
  /** How often others had a turn, with a clock that goes on by so much whenever it is asked. */
  async function turnsOf(
    step: number,
    source: Iterable<object | readonly object[]>,
  ): Promise<{ turns: number; pieces: number }> {
    let now = 0
    const clock = mock.method(performance, 'now', () => (now += step))
    let [turns, pieces, over] = [0, 0, false]
    const count = (): void => {
      if (over) return
      turns++
      setImmediate(count)
    }
    setImmediate(count)
    try {
      for await (const _ of syncPieces(source, new RecordText<object>(JSON.stringify, 'lines'))) pieces++
    } finally {
      over = true
      clock.mock.restore()
    }
    return { turns, pieces }
  }

  test('are processed in turns that block the event loop only briefly', async () => {
    for (const source of [records, [records], [records.slice(0, 2000), ...records.slice(2000)]]) {
      const { turns, pieces } = await turnsOf(20, source)
      assert.ok(pieces > 4 && turns >= pieces - 1, `${turns} turns, ${pieces} pieces`)
      assert.equal((await turnsOf(0, source)).turns, 0)
    }
  })
})

describe('the run of a spooled upload', () => {
  async function run(text: string, signal: AbortSignal, progress: () => void): Promise<UploadResult> {
    const blobs = new MemoryBlobs()
    const blob = `ndjson-upload/${'a'.repeat(22)}`
    await blobs.put(blob, given(text), { ttlMs: 60_000 })
    // In the pieces that it came in.
    const open = blobs.open.bind(blobs)
    blobs.open = async (key, range) => (key === blob ? given(...text.split(/(?<=\n)/)) : open(key, range))
    const schema = jsonSchema<User>({ type: 'object', required: ['id'] })
    const { task } = ndjsonUpload<User>({ schema, write: () => undefined, background: { name: 'up', blobs } })
    const context = { ...testContext(task), signal, progress }
    return task.run({ blob, coding: 'identity', size: text.length }, context)
  }

  test('lists a hundred errors by default', async () => {
    for (const bad of ['bad\n', '{}\n']) {
      const { items, summary } = await run(bad.repeat(150), new AbortController().signal, () => undefined)
      assert.deepEqual([items.length, summary.failed], [100, 150])
    }
  })

  test('ends when it is stopped, even if there is nothing to write', async () => {
    const stop = new AbortController()
    let told = 0
    await assert.rejects(
      run('bad\n'.repeat(5), stop.signal, () => {
        if (++told === 2) stop.abort(new Error('stopped'))
      }),
      /stopped/,
    )
    assert.equal(told, 2)
  })
})

test('the description of an upload names the schema of a line, and the responses in the background', () => {
  const schema = jsonSchema({ type: 'object', properties: { id: { type: 'integer' } } })
  const [direct, behind] = [uploadOperation(schema, false), uploadOperation(undefined, true)].map((each) =>
    JSON.stringify(each),
  )
  assert.ok(direct?.includes('\\"integer\\"') && !behind?.includes('\\"integer\\"'))
  for (const part of ['"202"', 'idempotency_needs_async', '"Idempotency-Key"']) {
    assert.deepEqual([direct?.includes(part), behind?.includes(part)], [false, true], part)
  }
})
