// What an upload does with bad lines: counts them, stops, writes nothing, and gives them back.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { memory } from '../../../adapters/memory/index.js'
import { isHttpError } from '../../../src/http/errors.js'
import type { HttpResponse } from '../../../src/http/exchange.js'
import { ndjsonUpload, uploadItems, type UploadItem, type UploadResult } from '../../../src/ndjson/index.js'
import type { UploadBackgroundOptions, UploadOptions } from '../../../src/ndjson/upload-options.js'
import { jsonSchema } from '../../../src/schema/json-schema.js'
import { taskEndpoints } from '../../../src/tasks/http/endpoints.js'
import { createTasks } from '../../../src/tasks/tasks.js'
import { fakeRequest, request, type Fake } from '../kit/request.js'

interface User { id: number }

const NDJSON = { 'content-type': 'application/x-ndjson' }
const TAKEN = { error: { code: 'taken', message: 'Taken.' } }
const schema = jsonSchema<User>({ type: 'object', required: ['id'], properties: { id: { type: 'integer' } } })

type Options = Partial<Omit<UploadOptions<User>, 'background'>>
interface Failure {
  readonly status: number
  readonly code: string
  readonly message: string
  readonly members?: { summary?: unknown }
}
interface Posted {
  readonly written: User[]
  readonly result?: UploadResult
  readonly error?: Failure
}

/** Uploads synchronously. Returns the response or error, and what was written. */
async function post(options: Options, fake: Fake): Promise<Posted> {
  const written: User[] = []
  const handler = ndjsonUpload<User>({ schema, batchSize: 2, write: (users) => { written.push(...users) }, ...options })
  try {
    const { body } = await handler(fakeRequest({ headers: NDJSON, ...fake })) as HttpResponse
    return { written, result: JSON.parse(body as string) as UploadResult }
  } catch (error) {
    assert.ok(isHttpError(error), String(error))
    return { written, error: error as unknown as Failure }
  }
}

/** Uploads in the background. Returns the task at its end, what was written, and a reader of paths below its status. */
async function inBackground(options: Options, background: Partial<UploadBackgroundOptions>, fake: Fake) {
  const written: User[] = []
  const storage = memory()
  const upload = ndjsonUpload<User>({
    schema, batchSize: 2, maxLines: 1000, write: (users) => { written.push(...users) }, ...options,
    background: { name: 'up', blobs: storage.blobs, ...background },
  })
  const tasks = createTasks({ ...storage, definitions: [upload.task] })
  const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
  const headers = { ...NDJSON, prefer: 'respond-async', ...fake.headers }
  const response = await upload.handler(endpoints)(fakeRequest({ ...fake, headers })) as HttpResponse
  const { taskId } = JSON.parse(response.body as string) as { taskId: string }
  const ended = await tasks.get(taskId).then(() => tasks.wait(taskId, { timeoutMs: 30_000 }))
  const items = uploadItems({ endpoints, blobs: storage.blobs })
  const read = async (path: string): Promise<string> => {
    const handler = path.startsWith('/items') ? items : endpoints.files
    const { body } = await handler(request({ path: `/tasks/${taskId}${path}` })) as HttpResponse
    return textOf(body)
  }
  return { response, written, ended, read, close: () => tasks.close() }
}

async function textOf(body: HttpResponse['body']): Promise<string> {
  if (body === undefined || typeof body === 'string') return body ?? ''
  const pieces: Uint8Array[] = []
  for await (const piece of body as AsyncIterable<Uint8Array | string>) pieces.push(Buffer.from(piece as Uint8Array))
  return Buffer.concat(pieces).toString()
}

const itemsOf = (text: string): UploadItem[] => text.trim().split('\n').map((line) => JSON.parse(line) as UploadItem)

describe('a body that is other JSON', () => {
  for (const [name, body] of [
    ['an array on one line', '[{"id":1},{"id":2}]'],
    ['an array on several lines', '[\n{"id":1},\n{"id":2}\n]\n'],
    ['an array after blank lines and a byte order mark', '\ufeff\n\n  [{"id":1}]'],
    ['an array that is longer than a line may be', `[${'{"id":1},'.repeat(40)}{"id":1}]`],
    ['a printed object', JSON.stringify({ id: 1, name: 'Ann' }, null, 2)],
    ['printed objects', '{\r\n  "id": 1\r\n}\r\n{\r\n  "id": 2\r\n}\r\n'],
  ] as const) {
    test(`gets a 400 that says so: ${name}`, async () => {
      const { error, written } = await post({ maxLineBytes: 200 }, { body })
      assert.equal(error?.code, 'not_ndjson')
      assert.equal(error.status, 400)
      assert.match(error.message, /each object on a line of its own/)
      assert.deepEqual(written, [])
    })
  }

  test('is recognised in each content coding', async () => {
    const headers = { ...NDJSON, 'content-encoding': 'gzip' }
    const { error } = await post({}, { headers, body: gzipSync('[{"id":1}]') })
    assert.equal(error?.code, 'not_ndjson')
  })

  test('is NDJSON with failed lines if a valid line comes first, or if the first line is broken in another way', async () => {
    for (const body of ['{"id":1}\n[1]\n{\n', '{"id":\n{"id":1}\n', '"text"\n{"id":1}\n']) {
      const { result, written } = await post({}, { body })
      assert.deepEqual(written, [{ id: 1 }], body)
      assert.ok((result?.summary.failed ?? 0) > 0)
    }
  })

  test('fails its task if it is read in the background', async () => {
    const { ended, close } = await inBackground({}, {}, { body: '[{"id":1}]' })
    assert.equal(ended?.status === 'failed' && ended.error.code, 'not_ndjson')
    await close()
  })
})

describe('maxBadLines', () => {
  const body = '{"id":1}\n{"id":2}\n{broken\n{"id":3}\n{"id":"x"}\n{"id":4}\n{"id":5}\n'

  test('stops the upload with a 422, before the batch with the first bad line above the limit is written', async () => {
    const { error, written } = await post({ maxBadLines: 1 }, { body })
    assert.equal(error?.status, 422)
    assert.equal(error.code, 'too_many_bad_lines')
    assert.equal(error.message, 'More than 1 line failed. The upload was stopped.')
    assert.deepEqual(written.map(({ id }) => id), [1, 2])
    assert.deepEqual(error.members?.summary, { total: 4, succeeded: 2, failed: 2 })
  })

  test('allows as many bad lines as its value', async () => {
    const { result, written } = await post({ maxBadLines: 2 }, { body })
    assert.deepEqual(result?.summary, { total: 7, succeeded: 5, failed: 2 })
    assert.equal(written.length, 5)
  })

  test('counts records that write has failed, in each batch', async () => {
    const write = (users: User[]) => users.map(({ id }) => (id > 3 ? TAKEN : null))
    const { error } = await post({ maxBadLines: 0, write }, { body: '{"id":1}\n{"id":2}\n{"id":3}\n{"id":4}' })
    assert.equal(error?.code, 'too_many_bad_lines')
  })

  test('counts bad lines that have no description any more', async () => {
    const { error } = await post({ maxBadLines: 3, maxErrors: 1 }, { body: '{x\n'.repeat(5) })
    assert.deepEqual(error?.members?.summary, { total: 5, succeeded: 0, failed: 5 })
  })
})

describe('checkFirst', () => {
  const strict = { checkFirst: true, maxBadLines: 0 }
  const body = `${Array.from({ length: 30 }, (_, id) => `{"id":${id}}`).join('\n')}\n{broken\n`

  test('writes nothing if a bad line comes last, and keeps the errors', async () => {
    const { ended, written, read, close } = await inBackground(strict, { keepItems: true }, { body })
    assert.equal(ended?.status, 'failed')
    assert.equal(ended?.status === 'failed' && ended.error.code, 'too_many_bad_lines')
    const { message } = ended?.status === 'failed' ? ended.error : assert.fail('not failed')
    assert.match(message, /Nothing was written\. Before that: Checked 31 records: 30 valid, 1 failed/)
    assert.deepEqual(written, [])
    assert.deepEqual(itemsOf(await read('/items')).map(({ line, status }) => [line, status]), [[31, 400]])
    await close()
  })

  test('writes the good lines if there are not too many bad ones, and reports each line once', async () => {
    const options = { ...strict, maxBadLines: 1 }
    const { ended, written, read, close } = await inBackground(options, { keepItems: true }, { body })
    assert.equal(ended?.status, 'completed')
    assert.equal(written.length, 30)
    const lines = itemsOf(await read('/items')).map(({ line }) => line)
    assert.deepEqual(lines, Array.from({ length: 31 }, (_, at) => at + 1))
    await close()
  })

  test('makes a task of a request that does not request one', async () => {
    const { response, written, close } = await inBackground(strict, {}, { body: '{"id":1}', headers: { prefer: '' } })
    assert.equal(response.status, 202)
    assert.deepEqual(written, [{ id: 1 }])
    await close()
  })

  test('finds duplicates before anything is written', async () => {
    const fake = { body: '{"id":1}\n{"id":2}\n{"id":1}' }
    const { ended, written, close } = await inBackground({ ...strict, key: ({ id }) => String(id) }, {}, fake)
    assert.equal(ended?.status, 'failed')
    assert.deepEqual(written, [])
    await close()
  })
})

describe('dryRun', () => {
  const dryRun: Options['dryRun'] = ({ headers }) => headers['x-dry-run'] === '1'
  const headers = { ...NDJSON, 'x-dry-run': '1' }
  const body = '{"id":1}\n{"id":1}\n{broken'

  test('validates, compares and reports, and writes nothing', async () => {
    const { result, written } = await post({ dryRun, key: ({ id }) => String(id), maxLines: 10 }, { body, headers })
    assert.deepEqual(written, [])
    assert.equal(result?.dryRun, true)
    assert.equal(result.message, 'Checked 3 records: 1 valid, 2 failed. Nothing was written.')
    const codes = result.items.map(({ line, error }) => [line, error?.code])
    assert.deepEqual(codes, [[2, 'duplicate_item'], [3, 'line_malformed']])
  })

  test('does not affect other requests', async () => {
    const { result, written } = await post({ dryRun }, { body })
    assert.equal(written.length, 2)
    assert.equal(result?.dryRun, undefined)
  })

  test('works in the background, with the file of rejected lines', async () => {
    const { ended, written, read, close } = await inBackground({ dryRun }, { rejectedFile: true }, { body, headers })
    assert.deepEqual(written, [])
    assert.equal(ended?.status === 'completed' && (ended.result).dryRun, true)
    assert.equal(await read('/files/rejected.ndjson'), '{broken')
    await close()
  })
})

describe('a key', () => {
  test('fails a later line with the key of an earlier valid one', async () => {
    const key = ({ id }: User) => (id === 0 ? undefined : String(id % 10))
    const body = '{"id":1}\n{"id":"1"}\n{"id":0}\n{"id":0}\n{"id":11}\n{"id":2}'
    const { result, written } = await post({ key, maxLines: 100 }, { body })
    assert.deepEqual(written.map(({ id }) => id), [1, 0, 0, 2])
    const [, duplicate] = result?.items ?? []
    assert.equal(duplicate?.line, 5)
    assert.equal(duplicate?.status, 409)
    assert.equal(duplicate?.error?.code, 'duplicate_item')
    assert.equal(duplicate?.error?.message, 'Line 1 has the same key, so this line was not written.')
  })

  test('is compared in full, however long it is', async () => {
    const long = 'x'.repeat(5000)
    const key = ({ id }: User) => long + String(id)
    const { written } = await post({ key, maxLines: 100 }, { body: '{"id":1}\n{"id":2}\n{"id":1}' })
    assert.deepEqual(written.map(({ id }) => id), [1, 2])
  })

  test('is compared with lines that an earlier run of the task has written', async () => {
    let calls = 0
    const seen: number[] = []
    const write = (users: User[]) => {
      if (++calls === 2) throw new Error('The database is down')
      seen.push(...users.map(({ id }) => id))
    }
    const options = { key: ({ id }: User) => String(id), write }
    const body = '{"id":1}\n{"id":2}\n{"id":3}\n{"id":4}\n{"id":1}\n'
    const { ended, close } = await inBackground(options, { backoff: { type: 'fixed', delayMs: 1 } }, { body })
    assert.equal(ended?.status, 'completed')
    assert.deepEqual(seen, [1, 2, 3, 4])
    await close()
  })
})

describe('the rejected lines of a task', () => {
  const long = `{"long":"${'x'.repeat(300)}"}`
  const lines = ['\ufeff{"id":1}\r', '', '{"id":"ä"}', '{"id":3}', long, '{"id":5}', '{broken']
  const noUtf8 = Buffer.from([0xff, 0x0a, 0xfe])
  const body = Buffer.concat([Buffer.from(lines.join('\n')), noUtf8])

  test('are in a file with the bytes as they were sent, for every kind of error', async () => {
    const write = (users: User[]) => users.map(({ id }) => (id === 5 ? TAKEN : undefined))
    const options = { write, maxLineBytes: 200, maxErrors: 1 }
    for (const coded of [false, true]) {
      const fake = coded ? { headers: { 'content-encoding': 'gzip' }, body: gzipSync(body) } : { body }
      const { ended, read, close } = await inBackground(options, { rejectedFile: true }, fake)
      assert.equal(ended?.status, 'completed')
      const { summary, items } = ended?.status === 'completed' ? ended.result : assert.fail('not completed')
      assert.deepEqual(summary, { total: 7, succeeded: 2, failed: 5 })
      assert.deepEqual(items.map(({ line }) => line), [3])
      const failed = [2, 4, 5, 6].map((at) => lines[at]).join('\n')
      const expected = Buffer.concat([Buffer.from(failed), noUtf8])
      assert.equal(await read('/files/rejected.ndjson'), expected.toString())
      const [{ name, size, type } = assert.fail('no file')] = ended?.status === 'completed' ? ended.files ?? [] : []
      assert.deepEqual([name, size, type], ['rejected.ndjson', expected.byteLength, 'application/x-ndjson'])
      await close()
    }
  })

  test('make no file if no line failed', async () => {
    const { ended, close } = await inBackground({}, { rejectedFile: true }, { body: '{"id":1}' })
    assert.equal(ended?.status === 'completed' && ended.files, undefined)
    await close()
  })
})

describe('kept items', () => {
  const write = (users: User[]) => users.map(({ id }) => (
    id === 2 ? TAKEN : { status: 201, id, result: { text: `answer ${id}` } }
  ))

  test('have every line with its result, and can be filtered', async () => {
    const body = '{"id":1}\n{"id":2}\n\n{broken\n{"id":3}\n'
    const { ended, read, close } = await inBackground({ write, maxErrors: 1 }, { keepItems: true }, { body })
    assert.equal(ended?.status, 'completed')
    const statuses = itemsOf(await read('/items')).map(({ line, status }) => [line, status])
    assert.deepEqual(statuses, [[1, 201], [2, 422], [4, 400], [5, 201]])
    assert.equal(await read('/items?only=succeeded'), [
      '{"line":1,"status":201,"id":1,"result":{"text":"answer 1"}}\n',
      '{"line":5,"status":201,"id":3,"result":{"text":"answer 3"}}\n',
    ].join(''))
    assert.deepEqual(itemsOf(await read('/items?only=failed')).map(({ line }) => line), [2, 4])
    await assert.rejects(read('/items?only=all'), (error) => isHttpError(error) && error.code === 'invalid_query')
    await close()
  })

  test('do not exist without the option', async () => {
    const { read, close } = await inBackground({ write }, {}, { body: '{"id":1}' })
    await assert.rejects(read('/items'), (error) => isHttpError(error) && error.code === 'not_found')
    await close()
  })

  test('have no result that JSON cannot represent', async () => {
    const wrong = () => [{ status: 200, result: new Map([[1, 2]]) }]
    const background = { keepItems: true, attempts: 1 }
    const { ended, close } = await inBackground({ write: wrong }, background, { body: '{"id":1}' })
    assert.equal(ended?.status, 'failed')
    await close()
  })
})

describe('options of bad lines', () => {
  test('are rejected without the options that they need', () => {
    const write = () => undefined
    const background = { name: 'up', blobs: memory().blobs }
    for (const [options, message] of [
      [{ key: () => 'x' }, /key needs maxLines/],
      [{ checkFirst: true, maxBadLines: 0 }, /checkFirst needs background/],
      [{ checkFirst: true, background }, /checkFirst needs maxBadLines/],
      [{ background: { ...background, keepItems: true } }, /keepItems needs maxLines/],
      [{ background: { ...background, rejectedFile: true } }, /rejectedFile needs maxLines/],
      [{ maxBadLines: -1 }, /maxBadLines must be/],
      [{ dryRun: true }, /dryRun must be a function/],
    ] as const) assert.throws(() => ndjsonUpload({ write, ...options } as never), message)
  })
})
