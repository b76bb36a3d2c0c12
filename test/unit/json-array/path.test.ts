// An array anywhere in a body, read as it arrives.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { isHttpError, type HttpError } from '../../../src/http/errors.js'
import { jsonTextOf, parseJson } from '../../../src/http/body/json.js'
import { readElements, type ElementOptions } from '../../../src/json-array/array-reader.js'
import { toPointer } from '../../../src/schema/pointer.js'

interface Reading { readonly items: unknown[]; readonly error: HttpError | undefined }

async function* chunksOf(bytes: Uint8Array, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.slice(at, at + size)
}

async function read(
  source: string | AsyncIterable<Uint8Array>, options: ElementOptions, chunkBytes = 65_536,
): Promise<Reading> {
  const chunks = typeof source === 'string' ? chunksOf(Buffer.from(source), chunkBytes) : source
  const items: unknown[] = []
  try {
    for await (const batch of readElements(chunks, options)) {
      for (const item of batch.items) items.push(item)
    }
    return { items, error: undefined }
  } catch (error) {
    if (!isHttpError(error)) throw error
    return { items, error }
  }
}

const placeOf = (error: HttpError | undefined): string | undefined => (
  /line .*/.exec(error?.message ?? '')?.[0]
)
const pointerOf = (error: HttpError | undefined): string | undefined => error?.details?.[0]?.pointer

const keys = fc.constantFrom('data', 'users', '~', '/', '', 'é', '0', '2', '"', '},{', 'constructor')
const path = fc.array(keys, { maxLength: 4 })
const blank = fc.constantFrom('', '', ' ', '\n', '\r\n\t')
const items = fc.array(fc.oneof(
  fc.record({ name: fc.string(), tags: fc.array(fc.string(), { maxLength: 2 }) }),
  fc.jsonValue({ maxDepth: 2 }).filter((value) => !JSON.stringify(value).includes('proto')),
), { maxLength: 8 })
const others = fc.array(fc.tuple(fc.constantFrom('a', 'b', '[', 'ü'), fc.jsonValue({ maxDepth: 2 })), {
  maxLength: 2,
}).map((all) => all.filter(([, value]) => !JSON.stringify(value).includes('proto')))
const options = fc.record({ batchBytes: fc.constantFrom(1, 9, 64, 65_536), chunk: fc.integer({ min: 1, max: 80 }) })

/** Texts of the layers around the array; an index becomes an array or an object. */
const layers = fc.array(fc.record({ before: others, after: others, blank, isList: fc.boolean() }), {
  minLength: 4, maxLength: 4,
})

function bodyOf(
  steps: readonly string[], content: string,
  around: readonly { before: [string, unknown][], after: [string, unknown][], blank: string, isList: boolean }[],
): string {
  return steps.reduceRight((inner, key, level) => {
    const { before, after, blank: space, isList } = around[level] as typeof around[number]
    if (isList && /^[0-9]+$/.test(key)) {
      const first = Array.from({ length: Number(key) }, () => '{"other":[1]}')
      return `[${space}${[...first, inner, ...after.map(([, value]) => JSON.stringify(value))].join(`${space},`)}]`
    }
    const members = [...before, [key, undefined] as const, ...after].map(([name, value]) => (
      `${JSON.stringify(name)}${space}:${value === undefined && name === key ? inner : JSON.stringify(value)}`
    ))
    return `{${members.join(`,${space}`)}${space}}`
  }, content)
}

/** Returns the value at a path, as RFC 6901 section 4 evaluates it. */
function valueAt(body: unknown, steps: readonly string[]): unknown {
  return steps.reduce<unknown>((value, key) => (value as Record<string, unknown> | undefined)?.[key], body)
}

describe('an array anywhere in a body', () => {
  test('has the elements that JSON.parse finds at its pointer, for any division into chunks', async () => {
    await fc.assert(
      fc.asyncProperty(path, items, layers, options, async (steps, all, around, { batchBytes, chunk }) => {
        const text = bodyOf(steps, JSON.stringify(all), around)
        assert.deepEqual(valueAt(JSON.parse(text), steps), JSON.parse(JSON.stringify(all)))
        const { items: found, error } = await read(text, { path: steps, batchBytes }, chunk)
        assert.equal(error, undefined, text)
        assert.deepEqual(found, valueAt(JSON.parse(text), steps))
      }),
      { numRuns: 800 },
    )
  })

  test('is rejected where JSON.parse rejects, at the same position, and otherwise has the same elements', async () => {
    let malformed = 0
    const change = fc.tuple(
      fc.nat(),
      fc.constantFrom('', '', ',', '}', ']', '{', '[', '"', '\\', 'x', ':', '1', '\u0001'),
      fc.nat({ max: 1 }),
    )
    await fc.assert(
      fc.asyncProperty(
        path,
        items,
        layers,
        options,
        change,
        async (steps, all, around, { batchBytes, chunk }, [at, put, skip]) => {
          const good = bodyOf(steps, JSON.stringify(all), around)
          const where = at % (good.length + 1)
          const text = good.slice(0, where) + put + good.slice(where + skip)
          const { items: found, error } = await read(text, { path: steps, batchBytes }, chunk)
          if (error?.code === 'invalid_input') return
          let expected: HttpError | undefined
          try {
            assert.deepEqual(found, error ? found : valueAt(parseJson(jsonTextOf(Buffer.from(text))), steps), text)
          } catch (thrown) {
            if (!isHttpError(thrown)) throw thrown
            expected = thrown
          }
          if (error === undefined) assert.equal(expected, undefined, text)
          else {
            assert.throws(
              () => parseJson(jsonTextOf(Buffer.from(text))),
              (thrown: HttpError) => thrown.code === error.code && placeOf(thrown) === placeOf(error),
              text,
            )
            malformed++
          }
        },
      ),
      { numRuns: 1500 },
    )
    assert.ok(malformed > 200, `${malformed}`)
  })

  test('is rejected, as an element of an array, if commas and brackets are wrong', async () => {
    for (const text of [
      '[[1],]', '[[1],,[2]]', '[[1],[2],]', '[,[2]]', '[[1],[2]}', '[[1],[2],3', '[[1] [2]]',
      '{"0":1,}', '{"1":[1],}', '{,}', '{"1":[1]]',
    ]) {
      for (const chunk of [1, 100]) {
        const { error } = await read(text, { path: ['1'] }, chunk)
        assert.throws(
          () => parseJson(jsonTextOf(Buffer.from(text))),
          (thrown: HttpError) => error?.code === 'malformed_json' && placeOf(thrown) === placeOf(error),
          `${text} ${error?.message}`,
        )
      }
    }
  })

  test('has errors whose pointers begin at the root of the body', async () => {
    const steps = ['data', 'a/b']
    for (const [text, code, pointer] of [
      ['{"data":{"a/b":[{"x":1},{"x":}]}}', 'malformed_json', '/data/a~1b/1'],
      ['{"data":{"a/b":[{"x":1},{"__proto__":1}]}}', 'unsafe_key', '/data/a~1b/1'],
      ['{"data":{"a/b":{}}}', 'invalid_input', '/data/a~1b'],
      ['{"data":{"a/b":"text"}}', 'invalid_input', '/data/a~1b'],
      ['{"data":{}}', 'invalid_input', '/data/a~1b'],
      ['{"data":[]}', 'invalid_input', '/data'],
      ['{"data":7}', 'invalid_input', '/data'],
      ['{"other":{"a/b":[1]}}', 'invalid_input', '/data'],
      ['[]', 'invalid_input', ''],
      ['null', 'invalid_input', ''],
    ] as const) {
      const { error } = await read(text, { path: steps })
      assert.deepEqual([text, error?.code, pointerOf(error)], [text, code, pointer])
    }
  })

  test('names the rejected property beside it', async () => {
    for (const [text, steps, pointer] of [
      ['{"data":{"users":[1],"more":1}}', ['data', 'users'], '/data/more'],
      ['{"meta":{},"data":{"users":[1]}}', ['data', 'users'], '/meta'],
      ['{"data":{"users":[1]},"a~b":1}', ['data', 'users'], '/a~0b'],
      ['[[1],[2]]', ['0'], '/1'],
      ['[[1],[2]]', ['1'], '/0'],
    ] as const) {
      const { error } = await read(text, { path: steps, alone: true })
      assert.deepEqual([text, error?.code, pointerOf(error)], [text, 'invalid_input', pointer])
    }
    assert.deepEqual(await read('{"data":[{"users":[1]}]}', { path: ['data', '0', 'users'], alone: true }), {
      items: [1],
      error: undefined,
    })
  })

  test('is rejected if a step of its path occurs twice at any level, even with an escaped name', async () => {
    for (const [text, pointer] of [
      ['{"data":{"users":[1],"users":[2]}}', '/data/users'],
      ['{"data":{"users":[1]},"data":{"users":[2]}}', '/data'],
      ['{"data":{"users":[1]},"d\\u0061ta":7}', '/data'],
      ['{"data":{"users":[1],"x":1,"users":null}}', '/data/users'],
    ] as const) {
      const { items: found, error } = await read(text, { path: ['data', 'users'] })
      assert.deepEqual([text, found, error?.code, pointerOf(error)], [text, [1], 'invalid_input', pointer])
    }
  })
})

describe('hostile text beside the array', () => {
  async function* endless(head: string, filling: string, bytes: number): AsyncGenerator<Uint8Array> {
    yield Buffer.from(head)
    const piece = Buffer.from(filling.repeat(Math.ceil(65_536 / filling.length)))
    for (let sent = 0; sent < bytes; sent += piece.length) yield piece
  }
  const steps = ['data', 'users']

  for (const [name, head, filling] of [
    ['nesting without end before the path', '{"x":', '['],
    ['nesting without end on the path', '{"data":{"x":', '{"a":'],
    ['an endless text', '{"data":{"x":"', 'a'],
    ['an endless number', '{"data":{"x":1', '1'],
    ['an endless name', '{"data":{"', 'a'],
    ['an endless name of escapes', '{"', '\\u0061'],
    ['an endless element after the array', '{"data":{"users":[1,2],"x":["', 'a'],
  ] as const) {
    test(`ends the reading within limits: ${name}`, async () => {
      let readBytes = 0
      async function* counted(): AsyncGenerator<Uint8Array> {
        for await (const piece of endless(head, filling, 100_000_000)) {
          readBytes += piece.length
          yield piece
        }
      }
      const { items: found, error } = await read(counted(), { path: steps })
      assert.deepEqual([error?.status, error?.code], [413, 'body_too_large'])
      assert.deepEqual(found, head.includes('users') ? [1, 2] : [])
      assert.ok(readBytes < 2_000_000, `${readBytes}`)
    })
  }

  test('is rejected if it has keys that could change a prototype', async () => {
    for (const text of [
      '{"__proto__":{"users":[1]},"data":{"users":[1]}}', '{"data":{"__proto__":1,"users":[1]}}',
      '{"data":{"x":{"constructor":{"prototype":1}},"users":[1]}}',
      '{"data":{"users":[1]},"x":[{"__prot\\u006f__":1}]}',
    ]) {
      const { error } = await read(text, { path: steps })
      assert.equal(error?.code, 'unsafe_key', text)
      assert.throws(() => parseJson(jsonTextOf(Buffer.from(text))), { code: 'unsafe_key' })
    }
  })

  test('takes linear time, even with a million properties', async () => {
    const text = `{${'"a":{"b":[1,2]},'.repeat(1_000_000)}"data":{"users":[7]}}`
    assert.deepEqual(await read(text, { path: steps }), { items: [7], error: undefined })
  })

  test('may be below a path of 60 steps, and its pointer is shown', async () => {
    const long = Array.from({ length: 60 }, (_, at) => `k${at % 10}`)
    const text = `${long.map((key) => `{"${key}":`).join('')}[1,x]${'}'.repeat(60)}`
    const { error } = await read(text, { path: long })
    assert.equal(pointerOf(error), `${toPointer(long)}/1`)
  })
})
