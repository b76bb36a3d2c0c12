// Reading that continues at a batch of an earlier reader.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { isHttpError } from '../../../src/http/errors.js'
import { isArrayPosition, type ArrayPosition } from '../../../src/json-array/array-position.js'
import { readElements, type ElementOptions } from '../../../src/json-array/array-reader.js'

interface Reading {
  readonly items: unknown[]
  /** Index of the first item of each batch, and the place where the batch begins. */
  readonly batches: { start: number, place: ArrayPosition }[]
  readonly error: object | undefined
}

async function* chunksOf(bytes: Uint8Array, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.slice(at, at + size)
}

async function read(bytes: Uint8Array, options: ElementOptions, chunk: number): Promise<Reading> {
  const items: unknown[] = []
  const batches: Reading['batches'] = []
  try {
    for await (const { start, place, items: some } of readElements(chunksOf(bytes, chunk), options)) {
      batches.push({ start, place })
      items.push(...some)
    }
    return { items, batches, error: undefined }
  } catch (error) {
    if (!isHttpError(error)) throw error
    const { code, message, details, members } = error
    return { items, batches, error: { code, message, details, members } }
  }
}

const blank = fc.constantFrom('', ' ', '\n', '\r\n', '\r', '\t')
const item = fc.oneof(
  fc.record({ name: fc.string({ unit: 'binary' }), tags: fc.array(fc.integer(), { maxLength: 2 }) }),
  fc.jsonValue({ maxDepth: 2 }),
).filter((value) => !JSON.stringify(value).includes('proto'))
const content = fc.array(fc.tuple(blank, item, blank), { maxLength: 30 })
const body = fc.record({
  content, isList: fc.boolean(), mark: fc.constantFrom('', '\uFEFF'),
  path: fc.constantFrom([], ['users'], ['data', 'users'], ['data', '1', 'ü']),
}).map(({ content: items, isList, mark, path }) => {
  const array = `[${items.map(([before, value, after]) => before + JSON.stringify(value) + after).join(',')}]`
  const text = path.reduceRight((inner, key) => {
    if (isList && key === '1') return `[{"before":[1,2]},\r\n${inner},[]]`
    return `{ "before": {"a":"}"},\n${JSON.stringify(key)}: ${inner}, "after": [] }`
  }, array)
  return { path, bytes: Buffer.from(mark + text) }
})

describe('a reader that continues at a batch', () => {
  test('has the same remaining elements and the same error, for any body and any division into chunks', async () => {
    let compared = 0
    await fc.assert(
      fc.asyncProperty(
        body,
        fc.integer({ min: 1, max: 70 }),
        fc.constantFrom(1, 16, 64),
        fc.nat(),
        fc.constantFrom(undefined, '"', '}', ',', '\\'),
        async ({ path, bytes }, chunk, batchBytes, at, fault) => {
          const sent = Buffer.from(bytes)
          if (fault !== undefined) sent.write(fault, at % sent.length)
          const options = { path, batchBytes, maxElementBytes: 4096 }
          const whole = await read(sent, options, chunk)
          for (const { start, place } of whole.batches) {
            assert.ok(isArrayPosition(JSON.parse(JSON.stringify(place))))
            const rest = await read(sent.subarray(place.byte), { ...options, from: place }, chunk)
            assert.deepEqual(rest.items, whole.items.slice(start))
            assert.deepEqual(rest.error, whole.error)
            assert.equal(rest.batches[0]?.start, start)
            compared++
          }
        },
      ),
      { numRuns: 300 },
    )
    assert.ok(compared > 300)
  })

  test('rejects an invalid position', () => {
    const good = { byte: 1, item: 0, text: [1, 1, 2, 0], opened: [[1, 0]] }
    assert.ok(isArrayPosition(good))
    for (const bad of [
      undefined,
      null,
      5,
      {},
      { ...good, byte: -1 },
      { ...good, item: 0.5 },
      { ...good, text: [1] },
      { ...good, opened: [[1]] },
      { ...good, opened: 'x' },
    ]) {
      assert.equal(isArrayPosition(bad), false)
    }
  })
})
