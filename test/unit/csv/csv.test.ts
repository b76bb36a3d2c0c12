// CSV as the source of an upload: header rows, types, what spreadsheets write, and the file of rejected rows.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { memory } from '../../../adapters/memory/index.js'
import { csv, type CsvOptions } from '../../../src/csv/index.js'
import { isHttpError } from '../../../src/http/errors.js'
import type { HttpResponse } from '../../../src/http/exchange.js'
import { ndjsonUpload, type UploadResult } from '../../../src/ndjson/index.js'
import { taskEndpoints } from '../../../src/tasks/http/endpoints.js'
import { createTasks } from '../../../src/tasks/tasks.js'
import { ask, fakeRequest, request } from '../kit/request.js'

const CSV = { 'content-type': 'text/csv' }

interface Uploaded { readonly written: object[], readonly lines: number[], readonly result: UploadResult }

async function upload(body: string | Uint8Array, options: CsvOptions = {}): Promise<Uploaded> {
  const written: object[] = []
  const lines: number[] = []
  const handler = ndjsonUpload({
    source: csv(options),
    write: (rows, context) => {
      written.push(...rows)
      lines.push(...context.lines)
    },
  })
  const response = await handler(fakeRequest({ headers: CSV, body })) as HttpResponse
  return { written, lines, result: JSON.parse(response.body as string) as UploadResult }
}

async function errorOf(body: string | Uint8Array, options: CsvOptions = {}) {
  const error: unknown = await upload(body, options).then(() => undefined, (reason: unknown) => reason)
  assert.ok(isHttpError(error), String(error))
  return error
}

const codes = ({ items }: UploadResult) => items.map(({ line, error }) => [line, error?.code])

describe('a file that a spreadsheet has written', () => {
  const rows = [
    'Name;E-Mail;Notiz', 'Ann;ann@example.com;"Zeile 1\nZeile 2"', ';;', '"Bob ""B"" Öz";bob@example.com;"a;b"', '',
    'Cem;cem@example.com;', ';;',
  ]
  const text = `\ufeff${rows.join('\r\n')}\r\n`

  test('has records from its rows, with the numbers that the spreadsheet shows', async () => {
    const { written, lines, result } = await upload(text)
    assert.deepEqual(written, [
      { 'Name': 'Ann', 'E-Mail': 'ann@example.com', 'Notiz': 'Zeile 1\nZeile 2' },
      { 'Name': 'Bob "B" Öz', 'E-Mail': 'bob@example.com', 'Notiz': 'a;b' },
      { 'Name': 'Cem', 'E-Mail': 'cem@example.com', 'Notiz': '' },
    ])
    assert.deepEqual(lines, [2, 4, 6])
    assert.deepEqual(result.summary, { total: 3, succeeded: 3, failed: 0 })
  })

  test('may have its delimiter in a first line, which is not a row', async () => {
    const { written, lines } = await upload('sep=|\r\na|b\r\n1,5|2\r\n')
    assert.deepEqual([written, lines], [[{ a: '1,5', b: '2' }], [2]])
  })

  test('gets a 415 in UTF-16, with and without byte order mark', async () => {
    for (const bytes of [Buffer.from('\ufeffa,b\n1,2', 'utf16le'), Buffer.from('a,b\n1,2', 'utf16le')]) {
      const { status, message } = await errorOf(bytes)
      assert.equal(status, 415)
      assert.match(message, /UTF-16.*CSV UTF-8/)
    }
    const handler = ndjsonUpload({ source: csv(), write: () => undefined })
    const headers = { 'content-type': 'text/csv; charset=utf-16' }
    await assert.rejects(async () => handler(fakeRequest({ headers, body: 'a\n1' })), { status: 415 })
  })

  test('in Windows-1252 has failed rows wherever a letter is not ASCII', async () => {
    const { written, result } = await upload(Buffer.from('name\nMüller\nAnn\n', 'latin1'))
    assert.deepEqual(written, [{ name: 'Ann' }])
    assert.deepEqual(codes(result), [[2, 'row_not_utf8']])
  })

  test('shows its delimiter in the header row, outside of quotes', async () => {
    for (const [header, cells] of [['a;b', 'x;y'], ['a\tb', 'x\ty'], ['"a,b,c";b', 'x;y'], ['a', 'x']] as const) {
      const { written } = await upload(`${header}\n${cells}\n`)
      assert.equal(Object.keys(written[0] ?? {}).length, header === 'a' ? 1 : 2, header)
    }
    const { written } = await upload('a;b\n1;2', { delimiter: ',' })
    assert.deepEqual(written, [{ 'a;b': '1;2' }])
  })
})

describe('a header row', () => {
  test('gets a 400 that says what is wrong', async () => {
    const columns = { id: {}, name: { optional: true } }
    for (const [body, message, options] of [
      ['', /no rows/], ['\n\n,,\n', /no rows/], ['a,,b\n', /Column 2 has no name/], ['a,b, a\n', /Two columns.*"a"/],
      ['__proto__,b\n', /"__proto__" is not allowed/], [`${'x'.repeat(129)},b\n`, /not allowed/],
      ['a"b,c\n', /quote/], ['name\n', /no column "id"/, { columns }], ['id,age\n', /"age" is not known/, { columns }],
    ] as const) {
      const error = await errorOf(body, options ?? {})
      assert.deepEqual([error.status, error.code], [400, 'csv_header_invalid'], body)
      assert.match(error.message, message)
    }
  })

  test('may have other columns, which are left out', async () => {
    const columns = { id: { property: 'number' } }
    const { written } = await upload('x,id\n1,2\n', { columns, otherColumns: 'ignore' })
    assert.deepEqual(written, [{ number: '2' }])
  })

  test('may have names of properties that every object has', async () => {
    const { written } = await upload('constructor,toString\n1,2\n')
    assert.deepEqual(written.map((row) => Object.entries(row)), [[['constructor', '1'], ['toString', '2']]])
  })
})

describe('a row', () => {
  test('fails if it has more or fewer cells than the header row, and other rows are written', async () => {
    const { written, result } = await upload('a,b\n1\n1,2,3\n4,5\n')
    assert.deepEqual(written, [{ a: '4', b: '5' }])
    assert.deepEqual(codes(result), [[2, 'cells_missing'], [3, 'cells_extra']])
    assert.equal(result.items[0]?.error?.message, 'The row has 1 cell, and the header row has 2.')
    assert.equal(result.items[0]?.error?.excerpt, '1')
  })

  test('fails for a quoting fault, and other rows are written', async () => {
    const { lines, result } = await upload('a,b\n12" x,2\n"1,2\n3,4\n')
    assert.deepEqual([lines, codes(result)], [[4], [[2, 'row_malformed'], [3, 'row_malformed']]])
  })

  test('is limited in bytes', async () => {
    const { lines, result } = await upload(`a\n${'x'.repeat(200)}\n"${'y\n'.repeat(80)}\nb\n`, { maxRowBytes: 100 })
    assert.deepEqual(codes(result).slice(0, 2), [[2, 'row_too_large'], [3, 'row_malformed']])
    assert.equal(lines.at(-1), 84)
  })
})

describe('a typed column', () => {
  const columns = {
    id: { type: 'integer' }, price: { type: 'number' }, ok: { type: 'boolean', optional: true },
  } as const

  test('has numbers and booleans, and no property for an empty cell', async () => {
    const { written } = await upload('id,price,ok\n12,1.50,TRUE\n-3,1e3,false\n0,,\n', { columns })
    assert.deepEqual(written, [{ id: 12, price: 1.5, ok: true }, { id: -3, price: 1000, ok: false }, { id: 0 }])
  })

  test('fails a cell that would be changed silently', async () => {
    const bad = ['007', '1.0', '+1', ' 1', '9007199254740993', '1_000', '0x10', 'NaN']
    const prices = ['1,5', '1.234,50', '.5', '1e400', '0.12345678901234567891', 'Infinity', '1.']
    const text = [...bad.map((id) => `${id};1;`), ...prices.map((price) => `1;${price};`), '1;1;yes'].join('\n')
    const { written, result } = await upload(`id;price;ok\n${text}\n`, { columns })
    assert.deepEqual(written, [])
    assert.equal(result.items.length, bad.length + prices.length + 1)
    for (const { error } of result.items) assert.equal(error?.code, 'cell_invalid')
    assert.deepEqual(result.items[0]?.error?.details, [
      { pointer: '/id', message: 'must be a whole number without leading zeros, such as 12' },
    ])
  })

  test('leaves text as it is without a type', async () => {
    const { written } = await upload('id\n007\n1e5\n9007199254740993\n')
    assert.deepEqual(written, [{ id: '007' }, { id: '1e5' }, { id: '9007199254740993' }])
  })
})

/** Uploads in the background. Returns the rejected rows, and what was written. */
async function inBackground(body: string | Uint8Array, write: (rows: { id: string }[]) => unknown, options = {}) {
  const storage = memory()
  const importRows = ndjsonUpload<{ id: string }>({
    source: csv({ columns: { id: {}, name: { optional: true } } }), maxLines: 1000, batchSize: 2,
    write: write as never, ...options,
    background: {
      name: 'import', blobs: storage.blobs, rejectedFile: true, backoff: { type: 'fixed', delayMs: 1 },
    },
  })
  const tasks = createTasks({ ...storage, definitions: [importRows.task] })
  const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
  const headers = { ...CSV, prefer: 'respond-async' }
  const response = await importRows.handler(endpoints)(fakeRequest({ headers, body })) as HttpResponse
  const { taskId } = JSON.parse(response.body as string) as { taskId: string }
  const ended = await tasks.wait(taskId, { timeoutMs: 30_000 })
  const file = await endpoints.files(request({ path: `/tasks/${taskId}/files/rejected.csv` }))
  let rejected = ''
  for await (const piece of (file?.body ?? []) as AsyncIterable<Uint8Array>) rejected += Buffer.from(piece).toString()
  await tasks.close()
  return { ended, rejected }
}

describe('the rejected rows', () => {
  const taken = (rows: { id: string }[]) => rows.map(({ id }) => (
    id === 'taken' ? { error: { code: 'taken', message: 'The id is "taken".' } } : undefined
  ))
  const body = Buffer.concat([
    Buffer.from('id;name\r\n1;Ann\r\n2\r\ntaken;"Bob\nB"\r\n12" x;y\r\n\r\n3;a;b\r\n'), Buffer.from([0xfc, 0x0a]),
  ])

  test('are in a file with the same columns and the error, which can be corrected and sent again', async () => {
    const { ended, rejected } = await inBackground(body, taken)
    assert.equal(ended?.status, 'completed')
    const lines = [
      '\ufeffid;name;_error', '2;;cells_missing: The row has 1 cell, and the header row has 2.',
      'taken;"Bob\nB";"taken: The id is ""taken""."',
      '"12"" x;y";;"row_malformed: A cell has a quote, but does not begin with one.'
      + ' Put the cell in quotes, and write """" for a quote."',
      '3;a;cells_extra: The row has 3 cells, and the header row has 2.;b',
      'ü;;"row_not_utf8: The row is not UTF-8. Save the file as ""CSV UTF-8""."', '',
    ]
    assert.deepEqual(rejected.replaceAll(/"(cells_\w+: [^"]*)"/g, '$1').split('\r\n'), lines)
    const again = rejected.replace('taken;', 'free;').replace('\r\n2;;', '\r\n2;Eve;')
    const written: unknown[] = []
    const second = await inBackground(again, (rows) => { written.push(...rows) })
    assert.deepEqual(written, [
      { id: '2', name: 'Eve' }, { id: 'free', name: 'Bob\nB' }, { id: '12" x;y', name: '' }, { id: 'ü', name: '' },
    ])
    assert.match(second.rejected, /^\ufeffid;name;_error\r\n3;a;/)
  })

  test('are those of all runs of a task, and each row is written once', async () => {
    const written: string[] = []
    let calls = 0
    const { ended, rejected } = await inBackground('id\n1\n2\n"\n3\n4\n5\n6\n', (rows) => {
      if (++calls === 2) throw new Error('The database is down')
      written.push(...rows.map(({ id }) => id))
    })
    assert.equal(ended?.status, 'completed')
    assert.deepEqual(written, ['1', '2', '3', '4', '5', '6'])
    assert.equal(rejected.split('\r\n').length, 3)
  })
})

test('csv rejects options that it cannot use', () => {
  for (const [options, message] of [
    [{ delimiter: ':' }, /delimiter must be/], [{ columns: { a: { type: 'date' } } }, /needs a type/],
    [{ columns: { a: { kind: 1 } } }, /kind/], [{ otherColumns: 'refuse' }, /otherColumns must be/], [{ maxRowBytes: 0 }, /maxRowBytes/], [{ mediaTypes: ['csv'] }, /mediaTypes/],
  ] as const) assert.throws(() => csv(options as never), message)
})

test('Other media types get a 415 with the types that are read', async () => {
  const handler = ndjsonUpload({ source: csv(), moreMediaTypes: ['application/vnd.ms-excel'], write: () => undefined })
  const { status, headers } = await ask(handler, { method: 'POST', headers: { 'content-type': 'text/plain' } })
  assert.deepEqual([status, headers['accept']], [415, 'text/csv, application/vnd.ms-excel'])
})
