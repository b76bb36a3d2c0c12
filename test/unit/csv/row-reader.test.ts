// Rows and cells, whatever the borders of the chunks are. csv-parse says what well-formed files mean.
import assert from 'node:assert/strict'
import { isUtf8 } from 'node:buffer'
import { describe, test } from 'node:test'
import { parse } from 'csv-parse/sync'
import fc from 'fast-check'
import { RowReader, type Row } from '../../../src/csv/row-reader.js'

function rowsOf(bytes: Uint8Array, { borders = [], delimiter = ',', max = 1000 }: {
  borders?: readonly number[], delimiter?: string, max?: number
} = {}): Row[] {
  const reader = new RowReader(delimiter, max)
  const rows: Row[] = []
  const ends = [...new Set([...borders.map((border) => border % (bytes.length + 1)), bytes.length])]
  let start = 0
  for (const end of ends.sort((one, other) => one - other)) {
    // The reader may not keep the chunk.
    const chunk = Buffer.from(bytes.subarray(start, end))
    rows.push(...reader.read(chunk))
    chunk.fill(0x22)
    start = end
  }
  rows.push(...reader.finish())
  return rows
}

const read = (text: string, options = {}): Row[] => rowsOf(Buffer.from(text), options)
const shown = (rows: readonly Row[]) => rows.map(({ cells, fault }) => fault?.code ?? cells)

const cell = fc.string({ unit: fc.constantFrom('a', 'ä', '€', '😀', '"', ',', ';', '\n', '\r', ' ', '7', '\t') })
const table = fc.array(fc.array(cell, { minLength: 1, maxLength: 5 }), { minLength: 1, maxLength: 12 })
const borders = fc.array(fc.nat(), { maxLength: 12 })

/** Bytes that are often special. */
const anyBytes = fc.array(fc.constantFrom(...Buffer.from('",;\r\n\n"aä'), 0xff, 0x00), { maxLength: 80 })

describe('the rows of a file', () => {
  test('are the rows that csv-parse finds, for any division into chunks', () => {
    fc.assert(fc.property(table, borders, fc.constantFrom(',', ';', '\t'), fc.constantFrom('\n', '\r\n', '\r'), (
      cells, at, delimiter, lineEnd,
    ) => {
      const quoted = cells.map((row) => row.map((each) => `"${each.replaceAll('"', '""')}"`).join(delimiter))
      const bytes = Buffer.from(quoted.join(lineEnd))
      const expected: unknown = parse(bytes, {
        delimiter, relax_column_count: true, record_delimiter: ['\r\n', '\n', '\r'],
      })
      assert.deepEqual(rowsOf(bytes, { borders: at, delimiter }).map((row) => row.cells), expected)
    }))
  })

  test('do not depend on the borders of chunks, for any bytes and any limit', () => {
    fc.assert(fc.property(anyBytes, borders, fc.integer({ min: 1, max: 20 }), (given, at, max) => {
      const bytes = Uint8Array.from(given)
      const whole = rowsOf(bytes, { max })
      assert.deepEqual(rowsOf(bytes, { borders: at, max }), whole)
      assert.deepEqual(rowsOf(bytes, { borders: Array.from(bytes, (_, index) => index), max }), whole)
    }), { numRuns: 500 })
  })

  test('contain each part of the file once', () => {
    fc.assert(fc.property(anyBytes, (given) => {
      const bytes = Buffer.from(given)
      fc.pre(isUtf8(bytes))
      const kept = rowsOf(bytes).map(({ text }) => text).join('')
      assert.equal(kept.replaceAll(/[\r\n]/g, ''), bytes.toString().replaceAll(/[\r\n]/g, ''))
    }), { numRuns: 500 })
  })
})

describe('a quoting fault', () => {
  test('ends its row at the first line end, so that other rows are read', () => {
    for (const [bad, message] of [
      ['12" monitor,x', /does not begin with one/], ['"a"b,x', /after its closing quote/],
      ['"a" ,x', /after its closing quote/], ['x,"open', /not closed/],
    ] as const) {
      const rows = read(`a,b\n${bad}\n1,2\n3,4\n`)
      assert.deepEqual(shown(rows), [['a', 'b'], 'row_malformed', ['1', '2'], ['3', '4']], bad)
      assert.match(rows[1]?.fault?.message ?? '', message)
      assert.equal(rows[1]?.text, bad)
    }
  })

  test('does not end the file if it is in the last row', () => {
    assert.deepEqual(shown(read('1,2\n3,"x')), [['1', '2'], 'row_malformed'])
    assert.deepEqual(shown(read('1,2\n3,"x\n4,5\n6,"y"')), [['1', '2'], 'row_malformed', ['4', '5'], ['6', 'y']])
  })
})

describe('a row that is too large', () => {
  test('fails and is cut, and the rows after it are read', () => {
    const rows = read(`a\n${'x'.repeat(5000)}\nb\n${'y,'.repeat(3000)}\nc`, { max: 100, borders: [700, 1400, 2100] })
    assert.deepEqual(shown(rows), [['a'], 'row_too_large', ['b'], 'row_too_large', ['c']])
    assert.equal(rows[1]?.text, 'x'.repeat(100))
  })

  test('fails with its first line only if it begins with an open quote', () => {
    const lines = Array.from({ length: 50 }, (_, at) => `${at},value`)
    const rows = read(`"open,1\n${lines.join('\n')}`, { max: 100 })
    assert.deepEqual(shown(rows), ['row_malformed', ...lines.map((line) => line.split(','))])
  })

  test('is cut, so that the reader never keeps more than one row and a chunk', () => {
    const reader = new RowReader(',', 1000)
    const chunk = Buffer.alloc(1000, 'x')
    for (let at = 0; at < 10_000; at++) assert.deepEqual([...reader.read(chunk)], [])
    const { bytes } = reader as unknown as { bytes: Buffer }
    assert.ok(bytes.length < 20_000, `${bytes.length}`)
  })
})

test('A row that is not UTF-8 fails, and its text is read as Windows-1252', () => {
  const [row] = rowsOf(Buffer.from('M\xfcller,x', 'latin1'))
  assert.equal(row?.fault?.code, 'row_not_utf8')
  assert.deepEqual(row.cells, ['Müller', 'x'])
})
