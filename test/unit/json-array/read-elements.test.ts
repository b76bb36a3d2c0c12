import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Readable } from 'node:stream'
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import parser from 'stream-json/parser.js'
import { streamArray } from 'stream-json/streamers/stream-array.js'
import { isHttpError, type HttpError } from '../../../src/http/errors.js'
import { jsonTextOf, parseJson } from '../../../src/http/body/json.js'
import type { ErrorPosition } from '../../../src/json-array/array-position.js'
import type { ElementOptions } from '../../../src/json-array/array-reader.js'
import { inexactParsed } from '../../../src/http/body/exact-json.js'
import { readElements } from '../../../src/json-array/array-reader.js'

interface Reading { readonly items: unknown[]; readonly fault: HttpError | undefined }

async function* cut(bytes: Uint8Array, sizes: readonly number[]): AsyncGenerator<Uint8Array> {
  for (let at = 0, turn = 0; at < bytes.length; turn++) {
    const size = sizes[turn % sizes.length] as number
    yield bytes.slice(at, at + size)
    at += size
  }
}

/** Reads an array. A reader that only counts its elements must find as many, and the same fault. */
async function read(
  bytes: Uint8Array,
  options: ElementOptions = {},
  sizes: readonly number[] = [65_536],
): Promise<Reading> {
  const items: unknown[] = []
  let counted = 0
  const fault = await faultOf(async () => {
    for await (const batch of readElements(cut(bytes, sizes), options)) {
      assert.equal(batch.start, items.length)
      assert.ok(batch.items.length > 0)
      assert.equal(batch.count, batch.items.length)
      items.push(...batch.items)
    }
  })
  const countedFault = await faultOf(async () => {
    for await (const { start, count, items: none } of readElements(cut(bytes, sizes), {
      ...options,
      countOnly: true,
    })) {
      assert.deepEqual([start, none], [counted, []])
      counted += count
    }
  })
  assert.equal(counted, items.length)
  assert.deepEqual(
    [countedFault?.code, countedFault?.message, position(countedFault)],
    [fault?.code, fault?.message, position(fault)],
  )
  return { items, fault }
}

async function faultOf(reading: () => Promise<void>): Promise<HttpError | undefined> {
  try {
    await reading()
    return undefined
  } catch (error) {
    if (!isHttpError(error)) throw error
    return error
  }
}

/** What `parseJson` makes of the whole. */
function whole(bytes: Uint8Array): { readonly value?: unknown; readonly fault?: HttpError } {
  try {
    return { value: parseJson(jsonTextOf(bytes)) }
  } catch (error) {
    if (!isHttpError(error)) throw error
    return { fault: error }
  }
}

async function oracle(bytes: Uint8Array): Promise<unknown[] | undefined> {
  const items: unknown[] = []
  try {
    for await (const { value } of Readable.from([Buffer.from(bytes)])
      .pipe(parser.asStream())
      .pipe(streamArray.asStream()) as AsyncIterable<{ value: unknown }>)
      items.push(value)
    return items
  } catch {
    return undefined
  }
}

const bytesOf = (text: string): Buffer => Buffer.from(text)
const position = (fault: HttpError | undefined): ErrorPosition | undefined =>
  fault?.members?.['position'] as ErrorPosition | undefined
/** The message says where, in words that both use. */
const placeIn = (fault: HttpError | undefined): string | undefined => /line .*/.exec(fault?.message ?? '')?.[0]

/** Small blocks too, so that cuts, guesses and scans fall anywhere. */
const bounds = fc.record({
  batchBytes: fc.constantFrom(1, 7, 32, 200, 65_536),
  maxElementBytes: fc.constantFrom(1000, 1_048_576),
})
const sizes = fc.array(fc.integer({ min: 1, max: 60 }), { minLength: 1, maxLength: 5 })
const space = fc.constantFrom('', '', '', ' ', '\n', '\r\n', '\r', '\t ')
const scalar = fc.oneof(
  fc
    .string({ unit: fc.constantFrom('a', '}', '{', ',', '[', ']', '"', '\\', '\n', 'é', '東', '😀', ':') })
    .map((text) => JSON.stringify(text)),
  fc.constantFrom(
    '1',
    '-0',
    '1e5',
    '0.25',
    'true',
    'false',
    'null',
    '"\\u007b},{"',
    '"\\ud800"',
    '12345678901234567890',
    '1e309',
    '"\\\\"',
    '"\\\\\\""',
  ),
)
const { value: jsonText } = fc.letrec<{ value: string }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    scalar,
    fc
      .tuple(fc.array(tie('value'), { maxLength: 4 }), space)
      .map(([all, blank]) => `[${blank}${all.join(`${blank},`)}${blank}]`),
    fc
      .tuple(
        fc.array(fc.tuple(fc.constantFrom('a', 'b', 'proto', '},', 'constructor', '\\u0061', '{', 'é'), tie('value')), {
          maxLength: 4,
        }),
        space,
      )
      .map(([all, blank]) => `{${all.map(([key, value]) => `"${key}"${blank}:${blank}${value}`).join(`,${blank}`)}}`),
  ),
}))
const array = fc
  .tuple(fc.array(jsonText, { maxLength: 12 }), space, space)
  .map(([all, before, after]) => `${before}[${after}${all.join(`${after},${before}`)}${before}]${after}`)
/** Something that breaks JSON now and then: a character taken away, put in or exchanged. */
const broken = fc
  .tuple(
    array,
    fc.nat(),
    fc.constantFrom('', '', ',', '}', ']', '{', '[', '"', '\\', 'x', ' ', '\n', '\u0001', ':', '1'),
    fc.nat({ max: 1 }),
  )
  .map(([text, at, put, skip]) => {
    const where = at % (text.length + 1)
    return text.slice(0, where) + put + text.slice(where + skip)
  })

describe('a large array', () => {
  test('returns the values of JSON.parse and StreamArray, for any division into chunks', async () => {
    await fc.assert(fc.asyncProperty(array, bounds, sizes, async (text, options, cuts) => {
      const bytes = bytesOf(text)
      const { items, fault } = await read(bytes, options, cuts)
      assert.equal(fault, undefined)
      assert.deepEqual(items, JSON.parse(text))
      assert.deepEqual(await oracle(bytes), items)
    }), { numRuns: 500 })
  })

  test('is rejected where JSON.parse rejects, at the same position, after the preceding elements', async () => {
    let refused = 0
    await fc.assert(fc.asyncProperty(broken, bounds, sizes, async (text, options, cuts) => {
      const bytes = bytesOf(text)
      const expected = whole(bytes)
      const { items, fault } = await read(bytes, options, cuts)
      if (fault?.code === 'invalid_input') {
        assert.ok(!Array.isArray(expected.value))
        return
      }
      assert.equal(fault?.code, expected.fault?.code, text)
      if (fault === undefined) {
        assert.deepEqual(items, expected.value)
        return
      }
      refused++
      assert.equal(placeIn(fault), placeIn(expected.fault))
      const found = position(fault)
      assert.equal(found?.item, items.length)
      // What was given is the beginning of the body: an array, once it is closed before the fault
      // or at a comma before that.
      const sound = text.slice(0, found?.offset)
      const ends = [...sound.matchAll(/,/g)].map(({ index }) => `${sound.slice(0, index)}]`)
      assert.ok(items.length === 0 || [sound, ...ends].some((closed) => sameArray(closed, items)), text)
      assert.ok(!ends.some((closed) => sizeOf(closed) > items.length), text)
    }), { numRuns: 1500 })
    assert.ok(refused > 300, `${refused}`)
  })

  test('returns the same values as a property, beside other properties that are left out', async () => {
    const member = fc
      .tuple(fc.constantFrom('a', '},', '\\u0062', 'é', ''), jsonText)
      .map(([key, value]) => `"${key}":${value}`)
    const others = fc.array(member, { maxLength: 3 })
    const name = fc.constantFrom('"updates"', '"updat\\u0065s"')
    await fc.assert(
      fc.asyncProperty(
        others,
        name,
        array,
        others,
        space,
        bounds,
        sizes,
        async (before, key, text, after, blank, options, cuts) => {
          const body = bytesOf(
            `${blank}{${blank}${[...before, `${key}${blank}:${text}`, ...after].join(`,${blank}`)}${blank}}${blank}`,
          )
          const { items, fault } = await read(body, { ...options, path: ['updates'] }, cuts)
          assert.equal(fault, undefined)
          assert.deepEqual(items, (JSON.parse(body.toString()) as { updates: unknown }).updates)
        },
      ),
      { numRuns: 500 },
    )
  })

  test('is rejected as a property where JSON.parse rejects, at the same position', async () => {
    const texts = fc
      .tuple(array, fc.nat(), fc.constantFrom('', ',', '}', ']', '{', '"', 'x', ':', '\\', ' '), fc.nat({ max: 1 }))
      .map(([text, at, put, skip]) => {
        const body = `{"a":{"b":[1]},"updates":${text},"c" : 5 }`
        const where = at % (body.length + 1)
        return body.slice(0, where) + put + body.slice(where + skip)
      })
    await fc.assert(fc.asyncProperty(texts, bounds, sizes, async (text, options, cuts) => {
      const expected = whole(bytesOf(text))
      const { items, fault } = await read(bytesOf(text), { ...options, path: ['updates'] }, cuts)
      const updates = (expected.value as { updates?: unknown } | undefined)?.updates
      // What stands beside the member is held as a whole, so little of it is allowed: a text whose
      // member got another name may be too much.
      if (fault?.code === 'invalid_input' || fault?.code === 'body_too_large')
        assert.ok(!Array.isArray(updates) || text.split('"updates"').length > 2)
      else {
        assert.equal(fault?.code, expected.fault?.code, text)
        if (fault === undefined) assert.deepEqual(items, updates)
        else assert.equal(placeIn(fault), placeIn(expected.fault), text)
      }
    }), { numRuns: 1000 })
  })

  test('returns the same elements and the same error for any division into chunks, even for random bytes', async () => {
    const garbage = fc.tuple(broken, fc.nat(), fc.uint8Array({ minLength: 1, maxLength: 4 })).map(([text, at, put]) => {
      const bytes = bytesOf(text)
      const where = at % (bytes.length + 1)
      return Buffer.concat([bytes.subarray(0, where), put, bytes.subarray(where)])
    })
    const tight = fc.record({
      batchBytes: fc.constantFrom(1, 16, 65_536),
      maxElementBytes: fc.constantFrom(3, 12, 40, 1000),
    })
    await fc.assert(
      fc.asyncProperty(
        garbage,
        tight,
        sizes,
        fc.option(fc.nat({ max: 5 }), { nil: Infinity }),
        async (bytes, options, cuts, maxElements) => {
          const one = await read(bytes, { maxElementBytes: options.maxElementBytes, maxElements })
          const other = await read(bytes, { ...options, maxElements }, cuts)
          assert.deepEqual(other.items, one.items)
          assert.deepEqual(
            [other.fault?.code, other.fault?.message, other.fault?.details],
            [one.fault?.code, one.fault?.message, one.fault?.details],
          )
          assert.ok(one.items.length <= maxElements)
          const expected = whole(bytes)
          if (expected.fault !== undefined) assert.notEqual(one.fault, undefined)
          if (one.fault === undefined) assert.deepEqual(one.items, expected.value)
        },
      ),
      { numRuns: 1500 },
    )
  })
})

describe('the bounds of a large array', () => {
  async function* pieces(head: string, filling: Buffer, bytes: number): AsyncGenerator<Buffer> {
    yield bytesOf(head)
    for (let sent = 0; sent < bytes; sent += filling.length) yield filling
  }
  const readAll = async (source: AsyncIterable<Uint8Array>, options: ElementOptions = {}): Promise<Reading> => {
    const items: unknown[] = []
    try {
      for await (const batch of readElements(source, options)) items.push(...batch.items)
      return { items, fault: undefined }
    } catch (error) {
      if (!isHttpError(error)) throw error
      return { items, fault: error }
    }
  }

  test('allow an element of exactly the maximum size, with the white space around it', async () => {
    const body = bytesOf('["aaaa", "bbbbb" ,"cccccc"]')
    for (const cuts of [[1], [5], [65_536]]) {
      const { items, fault } = await read(body, { maxElementBytes: 8 }, cuts)
      assert.deepEqual(items, ['aaaa'])
      assert.equal(fault?.code, 'body_too_large')
      assert.deepEqual(position(fault), { item: 1, line: 1, column: 10, offset: 9 })
      assert.equal(fault.details?.[0]?.pointer, '/1')
      assert.deepEqual((await read(body, { maxElementBytes: 9 }, cuts)).items, ['aaaa', 'bbbbb', 'cccccc'])
    }
  })

  test('end the reading at a string of 200 MB after the preceding elements', async () => {
    let asked = 0
    async function* counted(): AsyncGenerator<Buffer> {
      for await (const piece of pieces('[{"a":1},{"b":"', Buffer.alloc(65_536, 0x61), 200_000_000)) {
        asked += piece.length
        yield piece
      }
    }
    const { items, fault } = await readAll(counted())
    assert.deepEqual(items, [{ a: 1 }])
    assert.deepEqual([fault?.status, fault?.code], [413, 'body_too_large'])
    assert.ok(asked < 2_000_000, `${asked}`)
  })

  test('stop endless nesting, and allow nesting of a million levels if its size is allowed', async () => {
    const { fault } = await readAll(pieces('[{"a":1},', Buffer.alloc(65_536, '['), 200_000_000))
    assert.equal(fault?.code, 'body_too_large')
    const deep = `[{"a":1},${'['.repeat(1_000_000)}${']'.repeat(1_000_000)},2]`
    const { items } = await read(bytesOf(deep), { maxElementBytes: 3_000_000 })
    assert.equal(items.length, 3)
  })

  test('report an element that is large because of a missing quote as malformed', async () => {
    const { items, fault } = await readAll(pieces('[{"a":1},{"b":x', Buffer.alloc(65_536, 0x61), 3_000_000))
    assert.deepEqual(items, [{ a: 1 }])
    assert.equal(fault?.code, 'malformed_json')
    assert.deepEqual(position(fault), { item: 1, line: 1, column: 15, offset: 14 })
  })

  test('end the reading at the first item above the maximum, after the allowed items', async () => {
    for (const batchBytes of [1, 65_536]) {
      const { items, fault } = await read(bytesOf('[{"a":1},{"a":2}, {"a":3},{"a":4}]'), { maxElements: 2, batchBytes })
      assert.deepEqual(items, [{ a: 1 }, { a: 2 }])
      assert.deepEqual(
        [fault?.status, fault?.code, position(fault)?.item, position(fault)?.offset],
        [413, 'body_too_large', 2, 18],
      )
    }
    assert.equal((await read(bytesOf('[1,2]'), { maxElements: 2 })).fault, undefined)
  })

  test('reject keys that could change a prototype, however they are escaped', async () => {
    for (const bad of [
      '{"__proto__":1}', '{"a":[{"constructor":{"prototype":1}}]}', '{"\\u005f_proto__":1}',
      '{"__prot\\u006F__":null}', '{"a":{"\\u0063onstructor":{"prototyp\\u0065":1}}}',
    ]) {
      const { items, fault } = await read(bytesOf(`[{"a":"},{"},{"b":2},${bad},{"c":3}]`))
      assert.deepEqual(items, [{ a: '},{' }, { b: 2 }])
      assert.equal(fault?.code, 'unsafe_key', bad)
      assert.deepEqual([fault.details?.[0]?.pointer, position(fault)?.offset], ['/2', 21])
      assert.throws(() => parseJson(jsonTextOf(bytesOf(bad))), { code: 'unsafe_key' })
      assert.equal((await read(bytesOf(`{"x":${bad},"updates":[1]}`), { path: ['updates'] })).fault?.code, 'unsafe_key')
    }
    assert.equal(
      (await read(bytesOf('{"__proto__":{"updates":[5]}}'), { path: ['updates'] })).fault?.code,
      'unsafe_key',
    )
    assert.equal((await read(bytesOf('[{"proto":1,"constructor":2,"a":"__proto__ \\u005f"}]'))).fault, undefined)
  })

  test('report a value that is not an array', async () => {
    for (const [body, member, code] of [
      ['', undefined, 'missing_body'],
      [' ', undefined, 'malformed_json'],
      ['\uFEFF', undefined, 'malformed_json'],
      ['x', undefined, 'malformed_json'],
      ['{"a":1}', undefined, 'invalid_input'],
      ['5', undefined, 'invalid_input'],
      ['[1]', 'updates', 'invalid_input'],
      ['{}', 'updates', 'invalid_input'],
      ['{"a":1}', 'updates', 'invalid_input'],
      ['{"updates":5}', 'updates', 'invalid_input'],
      ['{"updates":[1],"updates":[2]}', 'updates', 'invalid_input'],
      ['{"updates":[1],"a":1,"updates":5}', 'updates', 'invalid_input'],
      ['{"a":{"updates":[1]}}', 'updates', 'invalid_input'],
      ['{"updates":x}', 'updates', 'malformed_json'],
      [`{"${'a'.repeat(70_000)}":1,"updates":[]}`, 'updates', 'body_too_large'],
      [`{"a":"${'a'.repeat(70_000)}","updates":[]}`, 'updates', 'body_too_large'],
    ] as const) {
      const { fault } = await read(bytesOf(body), {
        maxElementBytes: 66_000,
        ...(member === undefined ? {} : { path: [member] }),
      })
      assert.equal(fault?.code, code, body.slice(0, 50))
    }
    const { fault } = await read(bytesOf('{"updates":[{"id":1},{"id":}]}'), { path: ['updates'] })
    assert.equal(fault?.details?.[0]?.pointer, '/updates/1')
  })

  test('skip a byte order mark, even in pieces, and allow an empty array', async () => {
    for (const cuts of [[1], [2], [100]]) {
      assert.deepEqual(await read(bytesOf('\uFEFF [1]'), {}, cuts), { items: [1], fault: undefined })
      assert.deepEqual(await read(bytesOf(' [ ] '), {}, cuts), { items: [], fault: undefined })
    }
  })

  test('reject bytes that are not UTF-8 with their element', async () => {
    const { items, fault } = await read(
      Buffer.concat([bytesOf('[{"a":"é"},\n {"a":"'), Buffer.from([0xed, 0xa0, 0x80]), bytesOf('"},{"b":1}]')]),
    )
    assert.deepEqual(items, [{ a: 'é' }])
    assert.equal(fault?.code, 'malformed_json')
    assert.deepEqual(position(fault), { item: 1, line: 2, column: 2, offset: 13 })
  })

  test('mark elements in which a string may have half of a surrogate pair', async () => {
    const wellFormed = async (item: string): Promise<boolean> => {
      const found: boolean[] = []
      for (const body of [`[{"a":1},${item}]`, `[${item},{"a":1},{"b":2}]`]) {
        for await (const batch of readElements(cut(bytesOf(body), [65_536]))) found.push(batch.wellFormed)
      }
      assert.equal(found.length, 2)
      assert.equal(found[0], found[1])
      return found[0] === true
    }
    for (const item of ['"\\uD800"', '"\\udfff"', '{"\\udc00":1}']) {
      assert.equal(await wellFormed(item), false, item)
      assert.equal(inexactParsed(JSON.parse(item)).length, 1, item)
    }
    for (const item of ['9007199254740993', '1.5', '"\\u00fc"', '"well"'])
      assert.equal(await wellFormed(item), true, item)
    await fc.assert(fc.asyncProperty(jsonText, async (item) => {
      const faults = inexactParsed(JSON.parse(item)).filter(({ message }) => message.includes('surrogate'))
      assert.ok(!(await wellFormed(item)) || faults.length === 0)
    }))
  })

  test('let other work run during a long read, and close the source when the reading stops', async () => {
    let turns = 0
    const ticking = setInterval(() => { turns++ }, 1)
    const items = bytesOf('{"name":"Somebody","email":"somebody@example.com"},'.repeat(1285))
    await readAll(pieces('[', items, 40_000_000))
    clearInterval(ticking)
    assert.ok(turns > 3, `${turns}`)
    let closed = false
    async function* source(): AsyncGenerator<Buffer> {
      try {
        for (;;) yield bytesOf('[1,'.repeat(30_000))
      } finally {
        closed = true
      }
    }
    await readAll(source())
    assert.ok(closed)
  })
})

function sameArray(text: string, items: readonly unknown[]): boolean {
  return sizeOf(text) === items.length && isDeepStrictEqual(JSON.parse(text), items)
}

/** Of a text that is an array, or -1. */
function sizeOf(text: string): number {
  try {
    return (JSON.parse(text) as unknown[]).length
  } catch {
    return -1
  }
}
