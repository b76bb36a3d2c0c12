import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { LineReader, type LineReaderOptions, type RecordBatch } from '../../../src/ndjson/line-reader.js'

const read = (text: string | Uint8Array, options?: LineReaderOptions): RecordBatch =>
  new LineReader(options).read(Buffer.from(text as string))

describe('a reader of lines', () => {
  test('treats a space, a tab and a carriage return as white space, and no other control character', () => {
    for (let code = 0; code <= 0x20; code++) {
      if (code === 0x0a) continue
      const char = String.fromCharCode(code)
      for (const line of [`{"a":1}${char}`, `${char}{"a":1}`]) {
        const { records, failed } = read(`{"b":1}\n${line}\n{"c":1}\n`)
        const white = [0x09, 0x0d, 0x20].includes(code)
        assert.deepEqual([records.length, failed], white ? [3, 0] : [2, 1], JSON.stringify(line))
      }
    }
  })

  test('accepts both line ends, separately for each line', () => {
    for (const ends of [
      ['\n', '\r\n', '\n'],
      ['\r\n', '\n', '\r\n'],
      ['\n\r\n', '\n\r\n', '\n'],
      ['\r\n\n', '\r\n\r\n', '\n'],
    ]) {
      const { records, failed } = read(ends.map((end, at) => `{"a":{"b":${at}}}${end}`).join(''))
      assert.deepEqual([records, failed], [ends.map((_, at) => ({ a: { b: at } })), 0], JSON.stringify(ends))
    }
  })

  test('reports a bad line without its white space and without bytes of the next line', () => {
    for (const line of ['{"a"', '{"a":}', '{"a":1}}', '{"a":1}x']) {
      const [alone] = read(`${line}\n`).errors
      assert.equal(alone?.excerpt, line)
      for (const tail of ['', ' ', '\t', '\r', ' \r', ' \t ']) {
        for (const next of ['', '}', '}}', '\r', '{"b":1}']) {
          assert.deepEqual(read(`${line}${tail}\n${next}\n`).errors[0], alone, JSON.stringify([line, tail, next]))
        }
      }
    }
  })
})

test('a line that is not UTF-8 is too long only if it has more bytes than the limit', () => {
  const line = Buffer.alloc(10, 0xff)
  for (const [maxLineBytes, code] of [[11, 'line_not_utf8'], [10, 'line_not_utf8'], [9, 'line_too_long']] as const) {
    const { errors } = read(Buffer.concat([line, Buffer.from('\n{"a":1}\n')]), { maxLineBytes })
    assert.deepEqual(errors.map((error) => [error.line, error.code]), [[1, code]], String(maxLineBytes))
  }
})

test('a hundred bad lines are described by default', () => {
  const { errors, failed } = read('x\n'.repeat(150))
  assert.deepEqual([errors.length, failed], [100, 150])
})

describe('a reader of records', () => {
  test('counts the ended lines and the received bytes', () => {
    for (const [chunks, lines] of [
      [[], 0],
      [['{"a":1}\n'], 1],
      [['{"a":1}\n\n'], 2],
      [['{"a"', ':1}\n', '{"b":1}'], 2],
      [['x', 'y\n', 'z\n'], 2],
      [[''], 0],
    ] as const) {
      const reader = new LineReader()
      let bytes = 0
      assert.deepEqual([reader.lineCount, reader.byteCount], [0, 0])
      for (const chunk of chunks) {
        reader.read(Buffer.from(chunk))
        bytes += chunk.length
        assert.equal(reader.byteCount, bytes)
      }
      reader.end()
      assert.deepEqual([reader.lineCount, reader.byteCount], [lines, bytes], JSON.stringify(chunks))
    }
  })

  test('is independent of other readers', () => {
    const [one, other] = [new LineReader(), new LineReader()]
    one.read(Buffer.from('{'))
    other.read(Buffer.from('x'))
    assert.deepEqual(one.read(Buffer.from('"a":1}\n')).records, [{ a: 1 }])
    assert.deepEqual(other.end().errors.map(({ excerpt }) => excerpt), ['x'])
  })
})

test('the excerpt of a line that is too long never ends in half of a character', () => {
  for (const maxLineBytes of [10, 241, 250]) {
    for (const line of [`${'語'.repeat(79)}${'😀'.repeat(10)}`, `x${'ä'.repeat(200)}`]) {
      const [error] = new LineReader({ maxLineBytes }).read(Buffer.from(`${line}\n`)).errors
      assert.ok(line.startsWith(error?.excerpt ?? '?'), JSON.stringify([maxLineBytes, error?.excerpt]))
    }
  }
})
