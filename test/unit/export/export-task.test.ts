import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { describe, test } from 'node:test'
import { exportTask } from 'longhaul/export'
import type { ExportTaskOptions } from '../../../src/export/export-task.js'
import { testContext } from 'longhaul/testing'

interface User { readonly id: number, readonly name?: string }

const users = (count: number): User[] => Array.from({ length: count }, (_, at) => ({ id: at + 1 }))

/** Runs an export, and returns its files as `[name, text]`. */
async function exported(options: Partial<ExportTaskOptions<unknown, object>>) {
  const task = exportTask({ name: 'users', records: () => [], ...options })
  const context = testContext(task)
  const result = await task.run({}, context)
  return {
    result, types: context.written.map(({ type }) => type), reports: context.reports,
    files: context.written.map(({ name, text }) => [name, text]),
  }
}

describe('exportTask', () => {
  test('writes one file, or numbered parts of any number of records', async () => {
    const one = await exported({ records: () => users(3) })
    assert.deepEqual(one.files, [['users.ndjson', '{"id":1}\n{"id":2}\n{"id":3}\n']])
    assert.deepEqual(one.result, { message: 'Exported 3 records.', records: 3, parts: 1 })
    assert.deepEqual(one.types, ['application/x-ndjson'])
    const parts = await exported({ records: () => users(3), partRecords: 2, fileName: 'all users' })
    assert.deepEqual(parts.files, [
      ['all users-0001.ndjson', '{"id":1}\n{"id":2}\n'], ['all users-0002.ndjson', '{"id":3}\n'],
    ])
    const even = await exported({ records: () => users(4), partRecords: 2 })
    assert.equal(even.files.length, 2)
  })

  test('names each part by fileName', async () => {
    const fileName = (part: number) => part === 1 ? 'users' : `users-${part}`
    const parts = await exported({ records: () => users(5), partRecords: 2, fileName })
    assert.deepEqual(parts.files.map(([name]) => name), ['users.ndjson', 'users-2.ndjson', 'users-3.ndjson'])
    const one = await exported({ records: () => users(5), fileName, format: 'json' })
    assert.deepEqual(one.files.map(([name]) => name), ['users.json'])
  })

  test('accepts single records and lists, from synchronous sources, generators and streams', async () => {
    const expected = users(1500).map((user) => `${JSON.stringify(user)}\n`).join('')
    async function* mixed() {
      yield users(1500).slice(0, 700)
      yield []
      yield { id: 701 }
      yield* users(1500).slice(701)
    }
    const lists = [users(1500).slice(0, 999), { id: 1000 }, users(1500).slice(1000)]
    for (const source of [users(1500), mixed(), Readable.from(users(1500)), lists]) {
      for (const partRecords of [1, 333, 1500, undefined]) {
        if (partRecords === 1 && source !== lists) continue
        const again = source instanceof Readable ? Readable.from(users(1500)) : source
        if (Symbol.asyncIterator in again && !(again instanceof Readable) && partRecords !== undefined) continue
        const { files, result } = await exported({
          records: () => again, ...partRecords !== undefined && { partRecords },
        })
        assert.equal(files.map(([, text]) => text).join(''), expected)
        assert.equal(result.parts, Math.ceil(1500 / (partRecords ?? 1500)))
      }
    }
  })

  test('accepts the pool and the priority of defineTask', () => {
    const { pool, priority } = exportTask({ name: 'users', records: () => [], pool: 'heavy', priority: 5 })
    assert.deepEqual({ pool, priority }, { pool: 'heavy', priority: 5 })
  })

  test('writes one file for an export without records', async () => {
    assert.deepEqual((await exported({})).files, [['users.ndjson', '']])
    assert.deepEqual((await exported({ format: 'json' })).files, [['users.json', '[]\n']])
    const csv = await exported({ format: 'csv', columns: ['id', { key: 'name', header: 'Name' }] })
    assert.deepEqual(csv.files, [['users.csv', 'id,Name\r\n']])
    assert.deepEqual((await exported({ format: 'csv' })).files, [['users.csv', '']])
  })

  test('writes an array in each part of JSON, and the headings in each part of CSV', async () => {
    const json = await exported({ records: () => users(3), partRecords: 2, format: 'json' })
    assert.deepEqual(json.files.map(([, text]) => JSON.parse(text as string)), [
      [{ id: 1 }, { id: 2 }], [{ id: 3 }],
    ])
    const csv = await exported({ records: () => users(3), partRecords: 2, format: 'csv' })
    assert.deepEqual(csv.files, [
      ['users-0001.csv', 'id\r\n1\r\n2\r\n'], ['users-0002.csv', 'id\r\n3\r\n'],
    ])
  })

  test('selects properties by a schema', async () => {
    const schema = { type: 'object', properties: { id: { type: 'integer' } } }
    const { files } = await exported({ records: () => [{ id: 1, secret: 'x' }], schema })
    assert.deepEqual(files, [['users.ndjson', '{"id":1}\n']])
  })

  test('quotes CSV, writes dates and objects as JSON does, and leaves missing values empty', async () => {
    const { files } = await exported({
      format: 'csv',
      records: () => [
        { text: 'a "b", c\r\nd', date: new Date(0), list: [1, 'x'], yes: true, no: false, none: null },
        { text: 'é', date: undefined },
      ],
    })
    assert.deepEqual(files, [['users.csv', [
      'text,date,list,yes,no,none',
      '"a ""b"", c\r\nd",1970-01-01T00:00:00.000Z,"[1,""x""]",true,false,',
      'é,,,,,', '',
    ].join('\r\n')]])
  })

  test('writes no CSV cell as a formula, and keeps numbers as numbers', async () => {
    const texts = ['=1+1', '+1', '-1+1', '@x', '\tx', '\rx', '=cmd|\' /C calc\'!A0']
    const records = () => texts.map((text) => ({ text, number: -5 }))
    const { files: [[, csv] = []] } = await exported({ format: 'csv', records })
    for (const cell of (csv as string).split('\r\n').slice(1, -1)) {
      assert.match(cell, /^"?'/, cell)
      assert.match(cell, /,-5$/)
    }
    const { files: [[, plain] = []] } = await exported({ format: 'csv', records, escapeFormulas: false })
    assert.match(plain as string, /\r\n=1\+1,-5\r\n/)
  })

  test('reports progress, with the total if it is known', async () => {
    const { reports } = await exported({ records: () => users(250), total: () => 250 })
    assert.deepEqual(reports.at(-1), { done: 250, total: 250, message: undefined, unit: 'records' })
    const { reports: estimated } = await exported({ records: () => users(250), total: () => 300 })
    assert.deepEqual(estimated.at(-1), { done: 250, total: 250, message: undefined, unit: 'records' })
  })

  test('fails if its source fails, and stops a waiting source at an abort', async () => {
    const failure = new Error('the database is gone')
    await assert.rejects(exported({
      records: async function* () {
        yield { id: 1 }
        throw failure
      },
    }), failure)
    const closed: string[] = []
    const records = {
      [Symbol.asyncIterator]: () => ({
        next: async () => ({ done: false, value: { id: 1 } }) as const,
        return: async () => {
          closed.push('closed')
          return { done: true, value: undefined } as const
        },
      }),
    }
    const task = exportTask({ name: 'endless', records: () => records })
    const context = testContext(task)
    setTimeout(() => { context.abort(new Error('cancelled')) }, 20)
    await assert.rejects(async () => task.run({}, context), /cancelled/)
    assert.deepEqual(closed, ['closed'])
  })

  test('rejects options of another format, and an extension that would occur twice', () => {
    const define = (options: object) => () => exportTask({ name: 'users', records: () => [], ...options })
    const cases: [object, string][] = [
      [{ columns: ['id'] }, 'columns has no effect on ndjson; it is for csv'],
      [{ format: 'json', escapeFormulas: false }, 'escapeFormulas has no effect on json; it is for csv'],
      [{ format: 'csv', schema: {} }, 'schema has no effect on csv; it is for ndjson and json'],
      [{ format: 'csv', fileName: 'users.csv' }, 'fileName must have no extension, because .csv is added'],
      [{ fileName: () => 'users.ndjson' }, 'fileName must have no extension, because .ndjson is added'],
    ]
    for (const [options, message] of cases) {
      assert.throws(define(options), { name: 'TypeError', message: `exportTask("users"): ${message}` })
    }
    assert.equal(define({ format: 'csv', fileName: 'users.v2' })().name, 'users')
  })

  test('rejects invalid options', () => {
    for (const options of [
      { format: 'xml' }, { partRecords: 0 }, { partRecords: 1.5 }, { fileName: 'a/b' }, { fileName: () => 'a/b' },
      { records: [] }, { schema: { '~standard': { version: 1, vendor: 'x', validate: () => ({}) } } },
    ]) {
      assert.throws(() => exportTask({ name: 'users', records: () => [], ...options } as never), TypeError)
    }
  })
})
