import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parse } from 'csv-parse/sync'
import { CsvText, propertiesOf, type CsvDelimiter, type CsvSettings } from '../../../src/export/export-text.js'

const SETTINGS: CsvSettings = {
  columns: [{ key: 'a' }, { key: 'b' }],
  escapeFormulas: true,
  delimiter: ',',
  bom: false,
}

function csvOf(record: object, settings: Partial<CsvSettings> = {}): string {
  const text = new CsvText({ ...SETTINGS, ...settings })
  text.addAll([record])
  return text.take().toString()
}

/** Returns the cells that a reader of CSV sees, which also takes quotes inside of a cell as they are. */
function cellsOf(csv: string, delimiter: string): readonly string[] {
  const rows: string[][] = parse(csv, { delimiter, relax_quotes: true, relax_column_count: true, bom: true })
  return rows.flat()
}

const DELIMITERS: readonly CsvDelimiter[] = [',', ';', '\t', '|']
const STARTS = [
  '=1+1', '+1', '-1+1', '-A1', '@SUM(A1)', '＝1', ' =1', '\u00a0=1', '\ufeff=1', '\0=1', '"=1"',
  '\t=1', '\r=1', '\n=1',
]

test('no CSV cell of text begins with a formula, for any separator at which a reader splits the file', () => {
  const between = ['', ...[',', ';', '\t', '|', '\n', '\r', '\r\n', '; ', ';"', ',"'].map((each) => `x${each}`)]
  for (const delimiter of DELIMITERS) {
    for (const start of STARTS) {
      for (const before of between) {
        const csv = csvOf({ a: before + start, b: `${before}${start};x` }, { delimiter })
        for (const reader of DELIMITERS) {
          // A reader may split at each line break and separator, and see no quotes at all.
          const naive = csv.split(/[\r\n]/).flatMap((line) => line.split(reader))
          const cells = [
            ...naive.map((cell) => cell.replace(/^"/, '')),
            ...(delimiter === reader ? cellsOf(csv, reader) : []),
          ]
          for (const cell of cells) assert.doesNotMatch(cell, /^[\s\p{C}"]*[=+\-@＝]/u, JSON.stringify([csv, reader]))
        }
      }
    }
  }
})

test('a CSV reader with the same delimiter gets each text unchanged, except for the marks', () => {
  const texts = ['a', 'a,b', 'a;b', 'a\tb', 'a|b', 'say "hi"', 'a\r\nb', ' a ', '', 'ä€😀', '1-2', 'a=b', 'a - b']
  for (const delimiter of DELIMITERS) {
    for (const text of texts) {
      const csv = csvOf({ a: text, b: '=1' }, { delimiter, bom: true })
      assert.deepEqual(cellsOf(csv, delimiter), ['a', 'b', text, '\'=1'])
    }
  }
  assert.equal(csvOf({ a: '=1', b: 'x;=1' }, { escapeFormulas: false }), 'a,b\r\n=1,"x;=1"\r\n')
})

test('numbers stay numbers in CSV', () => {
  assert.equal(csvOf({ a: -1.5, b: 10n }), 'a,b\r\n-1.5,10\r\n')
})

test('a negative number that a driver returns as text stays a number', () => {
  for (const number of ['-5', '-12.50', '-1e-7', '-0.1E+21', '-12345678901234567890']) {
    assert.equal(csvOf({ a: number, b: 1 }), `a,b\r\n${number},1\r\n`)
  }
  for (const formula of [
    '-5+1',
    '-5;=1',
    '-5\n',
    '--5',
    '-5-',
    '- 5',
    '-',
    '+49151234',
    '-5.',
    '-.5',
    '-1e',
    "-2+3+cmd|' /C calc'!A0",
  ]) {
    assert.match(csvOf({ a: formula, b: 1 }), /^a,b\r\n"'-|^a,b\r\n"'\+/)
  }
})

test('a property that is JSON stays JSON', () => {
  const values = [[12.5, -3.1], [1, -2, -1e-7, -3], { at: [[-1, -2], [-3, -4]], 'n': -5 }, [{ a: 1 }, -5, { b: -6 }]]
  for (const delimiter of DELIMITERS) {
    for (const a of values)
      assert.deepEqual(JSON.parse(cellsOf(csvOf({ a, b: 1 }, { delimiter }), delimiter)[2] ?? ''), a)
  }
  const unsafe = ['x,=1', 'x;-5,1', 'x,-5+1', 'x|-1]']
  const marked = ["x,'=1", "x;'-5,1", "x,'-5+1", "x|'-1]"]
  assert.deepEqual(JSON.parse(cellsOf(csvOf({ a: unsafe, b: 1 }), ',')[2] ?? ''), marked)
})

test('marks in a long text are added in linear time', () => {
  const blanks = '\n\t "'.repeat(100_000)
  const before = process.cpuUsage()
  csvOf({ a: `x${blanks}y`, b: `x${blanks}=` })
  // Quadratic time would be minutes.
  assert.ok(process.cpuUsage(before).user < 10_000_000)
})

test('a CSV heading is not a formula', () => {
  assert.equal(csvOf({ a: 1, b: 2 }, { columns: [{ key: 'a', header: '=1' }, { key: 'b' }] }), '"\'=1",b\r\n1,2\r\n')
})

test('an invalid date is an empty CSV cell', () => {
  assert.equal(csvOf({ a: new Date(NaN), b: new Date(0) }), 'a,b\r\n,1970-01-01T00:00:00.000Z\r\n')
})

test('a text that toJSON returns is quoted once', () => {
  assert.equal(csvOf({ a: { toJSON: () => 'x' }, b: { toJSON: () => 'say "hi"' } }), 'a,b\r\nx,"say ""hi"""\r\n')
  assert.equal(csvOf({ a: { toJSON: () => '=1' }, b: { c: [1] } }), 'a,b\r\n"\'=1","{""c"":[1]}"\r\n')
})

test('a column is an own property of the record', () => {
  const columns = ['constructor', 'toString', '__proto__', 'a.b', 'a'].map((key) => ({ key }))
  const record = { 'a.b': 1, 'a': { b: 2 } }
  assert.equal(csvOf(record, { columns }).split('\r\n')[1], ',,,1,"{""b"":2}"')
  const own = JSON.parse('{ "constructor": 1, "toString": 2, "__proto__": 3 }') as object
  assert.equal(csvOf(own, { columns: columns.slice(0, 3) }).split('\r\n')[1], '1,2,3')
})

test('a record with toJSON has the properties that toJSON returns', () => {
  class Entity {
    toJSON(): object {
      return { a: 1, b: null }
    }
  }
  assert.deepEqual(propertiesOf(new Entity()), ['a', 'b'])
  assert.equal(csvOf(new Entity()), 'a,b\r\n1,\r\n')
})

test('a line with one empty cell is not a blank line', () => {
  assert.deepEqual(cellsOf(csvOf({ a: '' }, { columns: [{ key: 'a' }] }), ','), ['a', ''])
})
