import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { LineReader, type LineReaderOptions } from '../../../src/ndjson/line-reader.js'
import { readRecords } from '../../../src/ndjson/line-reader.js'

interface Read {
  records: object[]
  lines: number[]
  errors: { line: number; code: string; message: string; excerpt: string }[]
  failed: number
}

/** All that a reader makes of the chunks. */
function readAll(chunks: Iterable<Uint8Array>, options?: LineReaderOptions): Read {
  const reader = new LineReader(options)
  const all: Read = { records: [], lines: [], errors: [], failed: 0 }
  const take = ({ records, lines, errors, failed }: Read): void => {
    all.records.push(...records)
    all.lines.push(...lines)
    all.errors.push(...errors)
    all.failed += failed
  }
  for (const chunk of chunks) take(reader.read(chunk))
  take(reader.end())
  return all
}

const read = (text: string | Uint8Array, options?: LineReaderOptions): Read =>
  readAll([Buffer.from(text as string)], options)
const codes = ({ errors }: Read): string[] => errors.map(({ line, code }) => `${line} ${code}`)

function* cut(bytes: Uint8Array, at: readonly number[]): Generator<Uint8Array> {
  let start = 0
  for (const end of [...at, bytes.length]) {
    // A copy that is spoilt after use: a reader that keeps a view of it would show.
    const chunk = Buffer.from(bytes.subarray(start, end))
    yield chunk
    chunk.fill(0x2a)
    start = end
  }
}

describe('the lines of an upload', () => {
  test('SPEC 4.9.format.2, 4.9.format.3, 4.9.upload.1: are one object each, and are parsed separately', () => {
    assert.deepEqual(read('{"a":1}\n{"b":[2,{"c":"\\n"}]}\n'), {
      records: [{ a: 1 }, { b: [2, { c: '\n' }] }], lines: [1, 2], errors: [], failed: 0,
    })
  })
  test('may have CRLF, white space, blank lines, a byte order mark and a last line without a line feed', () => {
    const { records, lines, failed } = read('\ufeff{"a":1}\r\n\r\n \t\n  {"b":2} \t\r\n\n{"c":3}')
    assert.deepEqual([records, lines, failed], [[{ a: 1 }, { b: 2 }, { c: 3 }], [1, 4, 6], 0])
  })
  test('contain no records if they are blank or absent', () => {
    for (const text of ['', '\n', '\r\n\r\n', '\ufeff', ' '])
      assert.deepEqual(read(text), { records: [], lines: [], errors: [], failed: 0 })
  })
  test('may have a byte order mark only at the start of the first line', () => {
    assert.deepEqual(codes(read('{"a":1}\n\ufeff{"b":2}\n')), ['2 line_malformed'])
  })
  test('are malformed if they are not JSON, and are line_not_object if they are JSON other than an object', () => {
    const all = read('bad\n"text"\ntrue\n[1\n-1\n- 1\nnullx\n[{}]\n')
    assert.deepEqual(codes(all), [
      '1 line_malformed', '2 line_not_object', '3 line_not_object', '4 line_malformed',
      '5 line_not_object', '6 line_malformed', '7 line_malformed', '8 line_not_object',
    ])
    assert.equal(all.errors[0]?.message, 'The line is not valid JSON: at character 1, a value was expected.')
    assert.deepEqual(codes(read(`[${'1,'.repeat(5000)}1]\n[${'1,'.repeat(5000)}\n`)), [
      '1 line_not_object',
      '2 line_malformed',
    ])
  })
  test('SPEC 4.9.upload.2: do not affect each other, and a bad line is reported by its number', () => {
    const all = read('{"a":1}\n{"a":\n[1]\n7\nnull\n"x"\n{"a":1}{"b":2}\n{"z":9}\n')
    assert.deepEqual(all.records, [{ a: 1 }, { z: 9 }])
    assert.deepEqual(all.lines, [1, 8])
    assert.deepEqual(codes(all), [
      '2 line_malformed', '3 line_not_object', '4 line_not_object', '5 line_not_object',
      '6 line_not_object', '7 line_malformed',
    ])
  })
  test('are three bad lines if one JSON value stands on three lines', () => {
    assert.deepEqual(codes(read('{"a":1},{"b":2}\n{"a":[{"x":1}\n{"y":2}]}\n')), [
      '1 line_malformed', '2 line_malformed', '3 line_malformed',
    ])
  })
  test('have errors with the position of the error, which quote only the beginning of the line', () => {
    const [error] = read(`\n  {"a": tru, "b": "${'x'.repeat(200)}"}`).errors
    assert.deepEqual(error, {
      line: 2, code: 'line_malformed', message: 'The line is not valid JSON: at character 10, a value was expected.',
      excerpt: `{"a": tru, "b": "${'x'.repeat(63)}`,
    })
  })
  test('have excerpts that never end in half a character', () => {
    const [error] = read(`{${'x'.repeat(78)}😀😀`).errors
    assert.equal(error?.excerpt, `{${'x'.repeat(78)}`)
    // The first and the last of them, too.
    for (const char of ['\u{10000}', '\u{10ffff}'])
      assert.equal(read(`{${'x'.repeat(78)}${char}${char}`).errors[0]?.excerpt, `{${'x'.repeat(78)}`)
  })
  test('fail alone if they are not UTF-8', () => {
    const bytes = Buffer.concat([
      Buffer.from('{"a":"ä"}\n{"b":"'),
      Buffer.from([0xc3, 0x28, 0xff]),
      Buffer.from('"}\n{"c":"日本"}\n'),
    ])
    const all = read(bytes)
    assert.deepEqual(all.records, [{ a: 'ä' }, { c: '日本' }])
    assert.deepEqual(codes(all), ['2 line_not_utf8'])
  })
  test('fail if they have keys that could change a prototype, in any notation and at any depth', () => {
    const unsafe = [
      '{"__proto__":{"x":1}}', '{"a":[{"\\u005f_proto__":1}]}', '{"constructor":{"prototype":1}}',
      '{"\\u0063onstructor":{"prototype":{}}}',
    ]
    // Also where no other line of the block arouses suspicion.
    for (const line of unsafe) assert.deepEqual(codes(read(line)), ['1 line_unsafe_key'])
    const all = read([...unsafe, '{"constructor":"a word"}', '{"text":"__proto__"}'].join('\n'))
    assert.deepEqual(codes(all), ['1 line_unsafe_key', '2 line_unsafe_key', '3 line_unsafe_key', '4 line_unsafe_key'])
    assert.equal(all.records.length, 2)
  })
  test('fail alone if they are nested too deeply', () => {
    const deep = (levels: number): string => `${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`
    const all = read(`{"b":1}\n${deep(513)}\n${deep(512)}\n{"c":["__proto__"]}\n${deep(100_000)}`)
    assert.deepEqual([codes(all), all.lines], [['2 line_too_deep', '5 line_too_deep'], [1, 3, 4]])
  })
  test('have errors up to maxErrors, and are only counted above it', () => {
    const { errors, failed } = read('x\n'.repeat(10), { maxErrors: 3 })
    assert.deepEqual([errors.length, failed], [3, 10])
  })
  test('do not change the length of stack traces', () => {
    const { stackTraceLimit } = Error
    assert.ok(stackTraceLimit > 0)
    assert.equal(read('{"a":1}\n{"}\nx').failed, 2)
    assert.equal(Error.stackTraceLimit, stackTraceLimit)
  })
  test('invalid options are rejected', () => {
    for (const options of [
      { maxLineBytes: 0 },
      { maxLineBytes: 1.5 },
      { maxLineBytes: 2 ** 30 },
      { maxErrors: -1 },
      { maxErrors: NaN },
    ]) {
      assert.throws(() => new LineReader(options), TypeError)
    }
  })
})

describe('a line that is too long', () => {
  const long = `{"a":"${'x'.repeat(100)}"}`

  test('is one bad line, but a line of exactly the limit is not', () => {
    for (const [size, failed] of [[long.length, 0], [long.length - 1, 1]] as const) {
      const all = read(`{"b":1}\n${long}\n{"c":2}\n`, { maxLineBytes: size })
      assert.deepEqual([all.failed, all.records.length], [failed, 3 - failed])
      if (failed) assert.deepEqual(codes(all), ['2 line_too_long'])
    }
  })
  test('is measured in bytes', () => {
    const text = '{"a":"äää"}'
    assert.equal(read(`${text}\n`, { maxLineBytes: 14 }).failed, 0)
    assert.equal(read(`${text}\n`, { maxLineBytes: 13 }).failed, 1)
  })
  test('is not buffered while it arrives, in large pieces or byte by byte', () => {
    const reader = new LineReader({ maxLineBytes: 1000 })
    const before = process.memoryUsage().arrayBuffers
    const piece = Buffer.alloc(65_536, 0x61)
    let failed = 0
    for (let at = 0; at < 2000; at++) failed += reader.read(piece).failed
    for (let at = 0; at < 100_000; at++) failed += reader.read(piece.subarray(0, 1)).failed
    assert.equal(failed, 1)
    assert.ok(process.memoryUsage().arrayBuffers - before < 20 << 20)
    assert.deepEqual(reader.read(Buffer.from('\n{"ok":1}\n')).lines, [2])
  })
  test('is copied only once if it arrives one byte at a time', () => {
    const reader = new LineReader()
    const line = Buffer.from(`{"a":"${'x'.repeat(300_000)}"}`)
    const before = process.memoryUsage().arrayBuffers
    for (let at = 0; at < line.length; at++) reader.read(line.subarray(at, at + 1))
    assert.ok(process.memoryUsage().arrayBuffers - before < 8 << 20)
    assert.equal(reader.end().records.length, 1)
  })
})

describe('the same records are read', () => {
  const hostile = Buffer.concat([
    Buffer.from('\ufeff{"name":"Zoë 日本語 😀"}\r\n\r\n{"bad":\r\n[1,2]\n'),
    Buffer.from([0x7b, 0x22, 0xc3, 0x22, 0x7d, 0x0a]),
    Buffer.from(`{"long":"${'ü'.repeat(60)}"}\n \t \n{"__proto__":1}\n{"é":"\\u00e9"}\n{"last":true}`),
  ])
  const options = { maxLineBytes: 100 }

  test('from chunks that are cut at every place, and at every two places', () => {
    const whole = readAll([hostile], options)
    assert.equal(whole.records.length, 3)
    assert.deepEqual(codes(whole), [
      '3 line_malformed', '4 line_not_object', '5 line_not_utf8', '6 line_too_long',
      '8 line_unsafe_key',
    ])
    for (let first = 0; first <= hostile.length; first++) {
      for (let second = first; second <= hostile.length; second += 3) {
        assert.deepEqual(readAll(cut(hostile, [first, second]), options), whole, `${first} ${second}`)
      }
    }
    assert.deepEqual(readAll(cut(hostile, Array.from(hostile, (_, at) => at)), options), whole)
  })

  test('from any lines, with any limits and any division into chunks (property)', () => {
    const line = fc.oneof(
      fc.object({ maxDepth: 2 }).map((value) => JSON.stringify(value)),
      fc.json(),
      fc.string({ unit: 'grapheme' }),
      fc.constantFrom('', '\r', '{"a":1}', '{"a":', '{"ä":"日本"}', '\ufeff', '{"__proto__":{}}', '}', '{'),
    )
    const bytes = fc.oneof(
      fc.tuple(fc.array(line, { maxLength: 12 }), fc.constantFrom('\n', '\r\n'), fc.constantFrom('', '\ufeff'))
        .map(([lines, end, bom]) => Buffer.from(bom + lines.join(end))),
      fc.uint8Array({ maxLength: 60 }),
    )
    fc.assert(
      fc.property(
        bytes,
        fc.array(fc.nat(), { maxLength: 8 }),
        fc.integer({ min: 1, max: 60 }),
        (all, places, maxLineBytes) => {
          const cuts = places.map((place) => place % (all.length + 1)).sort((a, b) => a - b)
          assert.deepEqual(readAll(cut(all, cuts), { maxLineBytes }), readAll([all], { maxLineBytes }))
        },
      ),
      { numRuns: 2000 },
    )
  })

  test('as by JSON.parse (property)', () => {
    const record = fc.dictionary(
      fc.string().filter((key) => key !== '__proto__' && key !== 'constructor'),
      fc.jsonValue({ maxDepth: 2 }),
    )
    fc.assert(fc.property(fc.array(record, { maxLength: 20 }), (records) => {
      const text = records.map((each) => JSON.stringify(each)).join('\n')
      const expected = records.map((each) => JSON.parse(JSON.stringify(each)) as object)
      const all = read(text)
      if (all.failed === 0) assert.deepEqual(all.records, expected)
      else assert.ok(all.errors.every(({ code }) => code === 'line_unsafe_key' || code === 'inexact_value'))
    }), { numRuns: 500 })
  })
})

describe('a line has the same result among any other lines', () => {
  const nested = (open: string, close: string, levels: number): string =>
    `{"a":${open.repeat(levels - 1)}${close.repeat(levels - 1)}}`
  const MAX = 6000
  /** Lines, and what each is: a code, `undefined` for a record, `blank`. */
  const LINES: readonly (readonly [string | Uint8Array, string?])[] = [
    ['{"n":12345678901234567890}', 'inexact_value'],
    ['{"n":"\\ud800"}\r', 'inexact_value'],
    ['{"n":"12345678901234567890"}'],
    [' {"n":1e400}', 'inexact_value'],
    ['{"a":1}'],
    ['{"a":[1,{"b":"x"}]}\r'],
    [' {"ü":"日本語 😀"}\t'],
    ['{"é":"ÿ"}\r'],
    ['', 'blank'],
    [' \r', 'blank'],
    ['{"e":"\\u00e9\\n"}'],
    ['{"text":"__proto__ and prototype","\\u0041":2}'],
    ['{"protocol":"constructor"}'],
    ['{"\\u0070rototype":1}'],
    ['{"__proto__":1}', 'line_unsafe_key'],
    ['{"a":{"constructor":{"prototype":1}}}\r', 'line_unsafe_key'],
    ['{"constructor":{"\\u0070rototype":1}}', 'line_unsafe_key'],
    ['{"a":', 'line_malformed'],
    ['{"a":1}}', 'line_malformed'],
    ['{"ü"}', 'line_malformed'],
    ['{}\r}\r', 'line_malformed'],
    ['[1]', 'line_not_object'],
    ['x\r', 'line_malformed'],
    [Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d]), 'line_not_utf8'],
    [Buffer.from([0xe6, 0x97]), 'line_not_utf8'],
    [nested('[', ']', 512)],
    [nested('[', ']', 513), 'line_too_deep'],
    [nested('{"":', '}', 500).replace('}', '1}')],
    [`${'{"":'.repeat(512)}{}${'}'.repeat(512)}`, 'line_too_deep'],
    [`${'{"":'.repeat(511)}{}${'}'.repeat(511)}\r`],
    [`{"long":"${'x'.repeat(3000)}","lists":[${'[],'.repeat(300)}1]}`],
    [`{"long":"${'語'.repeat(1500)}"}`],
    [`{"long":"${'語'.repeat(2500)}"}`, 'line_too_long'],
  ]

  test('even among lines of all kinds, in one batch or in several (property)', () => {
    const lines = fc.array(fc.nat(LINES.length - 1), { minLength: 1, maxLength: 60 })
    fc.assert(
      fc.property(lines, fc.constantFrom('', '\ufeff'), fc.integer({ min: 1, max: 70_000 }), (chosen, mark, size) => {
        const records: unknown[] = []
        const bad: string[] = []
        for (const [at, index] of chosen.entries()) {
          const [line, code] = LINES[index] as (typeof LINES)[number]
          if (code === undefined) records.push([at + 1, JSON.parse(line as string)])
          else if (code !== 'blank') bad.push(`${at + 1} ${code}`)
        }
        const bytes = Buffer.concat([
          Buffer.from(mark),
          ...chosen.flatMap((index) => [Buffer.from(LINES[index]?.[0] as string), Buffer.from('\n')]),
        ])
        const places = Array.from({ length: Math.floor(bytes.length / size) }, (_, at) => (at + 1) * size)
        const all = readAll(cut(bytes, places), { maxLineBytes: MAX, maxErrors: Infinity })
        assert.deepEqual(
          all.records.map((record, at) => [all.lines[at], record]),
          records,
        )
        assert.deepEqual(codes(all), bad)
      }),
      { numRuns: 500 },
    )
  })
})

describe('readRecords', () => {
  async function* source(bytes: Uint8Array, size: number): AsyncGenerator<Uint8Array> {
    for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
  }

  test('returns every record once, in order, from chunks of any size', async () => {
    const bytes = Buffer.from(Array.from({ length: 20_000 }, (_, id) => `{"id":${id}}\n`).join(''))
    for (const size of [1000, 65_536, bytes.length]) {
      const ids: number[] = []
      for await (const { records, lines } of readRecords(source(bytes, size))) {
        assert.ok(records.length < 9000, 'one batch is one block')
        for (const [at, record] of records.entries()) {
          ids.push((record as { id: number }).id)
          assert.equal(lines[at], ids.length)
        }
      }
      assert.equal(ids.length, 20_000)
      assert.ok(ids.every((id, at) => id === at))
    }
  })
  test('lets the event loop continue while it reads a source that never waits', async () => {
    for (const line of ['x\n', '{"}\n', '{"a":1}\n']) {
      const bytes = Buffer.from(line.repeat(Math.ceil((1 << 20) / line.length)))
      let turns = 0
      let asked = true
      const turn = (): void => {
        turns++
        if (asked) setImmediate(turn)
      }
      turn()
      let seen = 0
      for await (const { records, failed } of readRecords(source(bytes, bytes.length))) seen += records.length + failed
      asked = false
      assert.equal(seen, bytes.length / line.length)
      assert.ok(turns >= 2, `${JSON.stringify(line)}: ${turns} turns`)
    }
  })
  test('closes a source that is not read to its end', async () => {
    let closed = false
    async function* endless(): AsyncGenerator<Uint8Array> {
      try {
        for (;;) yield Buffer.from('{"a":1}\n')
      } finally {
        closed = true
      }
    }
    for await (const batch of readRecords(endless())) {
      assert.equal(batch.records.length, 1)
      break
    }
    assert.ok(closed)
  })
})
