import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import fc from 'fast-check'
import parser from 'stream-json/parser.js'
import { streamArray } from 'stream-json/streamers/stream-array.js'
import { readElements } from '../../src/json-array/array-reader.js'
import { type HttpError } from '../../src/http/errors.js'
import {
  isTooDeep, isJsonObject, hasUnsafeKey, parseJson, jsonTextOf,
} from '../../src/http/body/json.js'
import { jsonFault } from '../../src/http/body/json-fault.js'
import { mergePatch } from '../../src/resources/items.js'
import { jsonSchema } from '../../src/schema/json-schema.js'
import { fromPointer, toPointer } from '../../src/schema/pointer.js'
import { linear } from './frame/linear.js'
import { mutated, mutatedBytes } from './frame/mutate.js'
import { outcome, refusal } from './frame/rule.js'

const TEXTS = [
  '{"a":[1,-0.5e+3,"\\u00e9\\n",true,null],"b":{"c":[]}}',
  '[{"email":"a@b.cd","name":"x"},{"email":"c@d.ef","name":"y"}]',
  '{"task":"report","data":{"month":"2026-10"}}', '[1,2.0,3e5,"a,]}",{"k":"}"}, [ ] ]', '[]',
  ' {"constructor":{"prototype":1}} ', '{"a":{"__proto__":{}}}', '[{"\\u005f_proto__":1}]',
  '"\\ud83d\\ude00"', '[1,[2,[3,[4]]]]',
]
const ARRAYS = TEXTS.filter((text) => text.startsWith('['))
const PIECES = [
  '{', '}', '[', ']', ',', ':', '"', '\\', '\\u', '\\"', '{"a":1}', 'true', 'nul', '-', '1e', '0',
  '"a":', '[[', ']]', '},', '\u2028',
]

/** What all of it is, by the engine. */
function engine(text: string): { readonly value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) as unknown }
  } catch {
    return undefined
  }
}

async function elements(
  bytes: Buffer,
  cuts: readonly number[],
  batchBytes: number,
): Promise<{ readonly items: unknown[]; readonly fault: HttpError | undefined }> {
  const items: unknown[] = []
  async function* source(): AsyncGenerator<Uint8Array> {
    for (let at = 0, turn = 0; at < bytes.length; turn++) {
      const size = cuts[turn % cuts.length] as number
      yield bytes.subarray(at, at + size)
      at += size
    }
  }
  try {
    for await (const batch of readElements(source(), { batchBytes })) items.push(...batch.items)
    return { items, fault: undefined }
  } catch (error) {
    return { items, fault: refusal(error) }
  }
}

async function streamJson(bytes: Buffer): Promise<unknown[] | undefined> {
  const items: unknown[] = []
  try {
    for await (const { value } of Readable.from([bytes])
      .pipe(parser.asStream())
      .pipe(streamArray.asStream()) as AsyncIterable<{ value: unknown }>)
      items.push(value)
    return items
  } catch {
    return undefined
  }
}

const STRICT = jsonSchema({
  uniqueItems: true,
  contains: { const: null },
  unevaluatedItems: false,
  items: {
    anyOf: [{ uniqueItems: true }, { enum: [{ a: 1 }, [2]] }],
    dependentRequired: { a: ['a'] },
    propertyNames: { maxLength: 3 },
  },
})
const ITEMS = ['#,', '"#",', '[#],', '{"a":#},', '[{"b":[#]},{"b":#}],', '{"a":{"b":[#,"#"]},"c":#},']

/** The items, each another one. */
function numbered(text: string): unknown {
  let count = 0
  return JSON.parse(`[${text.replaceAll('#', () => String(count++))}null]`)
}

const sizes = fc.array(fc.integer({ min: 1, max: 60 }), { minLength: 1, maxLength: 4 })

export const rules = {
  'a text is read where JSON.parse reads it, and its fault is where the prefix goes wrong': fc.property(
    mutated(TEXTS, PIECES),
    (text) => {
      const expected = engine(text.replace(/^\ufeff/, ''))
      const told = outcome(() => parseJson(text.replace(/^\ufeff/, '')))
      if (expected === undefined) {
        assert.ok('refused' in told && told.refused.code === 'malformed_json')
        const plain = text.replace(/^\ufeff/, '')
        const fault = jsonFault(plain)
        assert.ok(fault !== undefined && fault.offset <= plain.length)
        // Nothing of the client's text is told back to it.
        assert.ok(!told.refused.message.includes('email') && !told.refused.message.includes('month'))
        // What is before the fault can still become JSON, as far as the engine says where it stops.
        assert.ok([undefined, fault.offset].includes(jsonFault(plain.slice(0, fault.offset))?.offset))
      } else {
        assert.equal(jsonFault(text.replace(/^\ufeff/, '')), undefined)
        if ('value' in told) assert.deepEqual(told.value, expected.value)
        else
          assert.ok(
            told.refused.code === 'unsafe_key'
              ? hasUnsafeKey(expected.value)
              : told.refused.code === 'nested_too_deep' && isTooDeep(expected.value),
          )
      }
    },
  ),
  'bytes are read as their text is, or refused': fc.property(mutatedBytes(TEXTS, PIECES), (bytes) => {
    const told = outcome(() => parseJson(jsonTextOf(bytes)))
    if ('value' in told) assert.deepEqual(told.value, JSON.parse(bytes.toString().replace(/^\ufeff/, '')))
    else assert.ok(['malformed_json', 'missing_body', 'unsafe_key', 'nested_too_deep'].includes(told.refused.code))
  }),
  'an array is read as all of it would be, however it is cut': fc.asyncProperty(
    mutatedBytes(ARRAYS, PIECES),
    sizes,
    fc.constantFrom(1, 16, 65_536),
    async (bytes, cuts, batchBytes) => {
      const told = outcome(() => parseJson(jsonTextOf(bytes)))
      const { items, fault } = await elements(bytes, cuts, batchBytes)
      if (fault === undefined) assert.deepEqual(items, JSON.parse(bytes.toString().replace(/^\ufeff/, '')))
      // A key that is not allowed is met before what is malformed behind it.
      else if ('refused' in told) assert.ok([told.refused.code, 'invalid_input', 'unsafe_key'].includes(fault.code))
      else assert.ok(fault.code === 'invalid_input' && !Array.isArray(told.value))
    },
  ),
  'an array is what stream-json makes of it': fc.asyncProperty(mutated(ARRAYS, PIECES), sizes, async (text, cuts) => {
    const bytes = Buffer.from(text.toWellFormed().replace(/^\ufeff/, ''))
    const { items, fault } = await elements(bytes, cuts, 64)
    // stream-json takes some texts that JSON.parse does not; where we read all, it reads the same.
    if (fault === undefined) assert.deepEqual(await streamJson(bytes), items)
  }),
  'a merge patch is applied as RFC 7396 writes it': fc.property(fc.jsonValue(), fc.jsonValue(), (target, patch) => {
    fc.pre(!hasUnsafeKey(target) && !hasUnsafeKey(patch))
    const before = JSON.stringify([target, patch])
    const merged = mergePatch(target, patch)
    assert.equal(JSON.stringify([target, patch]), before)
    assert.deepEqual(mergePatch(merged, patch), merged)
    if (isJsonObject(patch))
      for (const [key, value] of Object.entries(patch))
        if (value === null) assert.ok(!Object.hasOwn(merged as object, key))
  }),
  'a pointer leads back to its keys': fc.property(
    fc.array(fc.string({ unit: 'binary', maxLength: 8 }), { maxLength: 6 }),
    (keys) => {
      assert.deepEqual(fromPointer(toPointer(keys)), keys)
    },
  ),
  'takes linear time as a text': linear([...PIECES, ' ', '\n', '1,', '{"a":', '\\\\'], (text) => parseJson(text)),
  'is judged by a schema in linear time': linear(ITEMS, (text) => STRICT['~standard'].validate(numbered(text))),
  'takes linear time as bytes that come': linear([...PIECES, ' ', '\n', '1,', '{"a":', '},', '"},'], (text) =>
    elements(Buffer.from(`[${text}`), [1000], 4096),
  ),
}
