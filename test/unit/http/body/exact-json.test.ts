import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { inexactParsed, inexactValues, isExact, mayBeInexact } from '../../../../src/http/body/exact-json.js'
import { isHttpError } from '../../../../src/http/errors.js'
import { ndjsonUpload, type UploadResult } from '../../../../src/ndjson/index.js'
import { collection } from '../../../../src/resources/collection.js'
import { jsonSchema } from '../../../../src/schema/json-schema.js'
import { fakeRequest } from '../../kit/request.js'
import { ask } from '../../resources/ask.js'
import { jsonOfBytes } from '../../../../src/http/body/json.js'

const INEXACT = [
  '12345678901234567890',
  '-9007199254740993',
  '9007199254740992',
  '1e400',
  '-1E+400',
  `1${'0'.repeat(400)}`,
  '1e-400',
  '4e-324',
  '0.12345678901234567891',
  '99999999999999.999',
  '12345678901234567890e0',
  '9007199254740993.0',
  '3.141592653589793238462643383279',
  '"\\ud800"',
  '"x\\udC00y"',
  '"\\ud83d\\ud83d\\ude00"',
  '"\\\\\\ud800"',
]
const EXACT = [
  '9007199254740991', '-9007199254740991', '6.02e23', '1e22', '1e300', '0.1', '0.30000000000000004',
  '0.10000000000000001', '5e-324', '1.7976931348623157e308', '0.00000000000000000001', '0', '-0',
  '0.000000000000000000000', '0e999', '1.50000000000000000000', '123456789012345', '1e005',
  '857306116408567.2', '857306116408567.3', '-8.573061164085672E14', '100000000000000.12',
  '100000000000000.13', '"\\ud83d\\ude00"', '"\\\\ud800"', '"12345678901234567890"', '"1e400"',
]

describe('a value of JSON text', () => {
  for (const value of INEXACT) {
    test(`${value.slice(0, 40)} changes when it is parsed`, () => {
      const text = `{"list":[1,{"a/b~":${value}}],"other":"x\\"y"}`
      assert.ok(mayBeInexact(text))
      assert.deepEqual(inexactValues(text).map(({ pointer }) => pointer), ['/list/1/a~1b~0'])
    })
  }
  test('changes wherever it stands in the text', () => {
    for (let at = 0; at < 40; at++) {
      for (const value of ['9007199254740993', '0.12345678901234567891']) {
        assert.ok(mayBeInexact(`${' '.repeat(at)}${value}`), `${value} at ${String(at)}`)
        assert.ok(!mayBeInexact(`${' '.repeat(at)}${value.slice(0, 15)} ${'7'.repeat(15)}`), `15 characters at ${String(at)}`)
      }
    }
  })
  test('is looked at once, however long it is', () => {
    const long = `0.5${'0'.repeat(4_000_000)}`
    assert.ok(!mayBeInexact(`[${long}, 0.14285714285714285, -0.3333333333333333]`))
    assert.ok(mayBeInexact(`[${long}1, 2]`))
  })
  for (const value of EXACT) {
    test(`${value} is kept`, () => {
      assert.deepEqual(inexactValues(`[{"n":${value}}]`), [])
    })
  }
  test('is kept if another program has written a double', () => {
    fc.assert(
      fc.property(
        fc.double({ noNaN: true, noDefaultInfinity: true }),
        fc.double({ min: 1e13, max: 2 ** 53 }),
        (any, large) => {
          for (const value of [any, large]) {
            // Integers have a rule of their own.
            const texts = [
              value.toExponential(),
              value.toPrecision(17),
              ...(Number.isInteger(value) ? [] : [String(value)]),
            ]
            for (const text of texts.filter((each) => /[.e]/.test(each)))
              assert.deepEqual(inexactValues(`[${text}]`), [])
          }
        },
      ),
      { numRuns: 5000 },
    )
  })
  test('may lose digits if it is the name of a property', () => {
    assert.deepEqual(inexactValues('{"a":{"\\ud800":1}}'), [
      { pointer: '/a', message: 'has a name with half of a surrogate pair' },
    ])
  })
  test('is listed if it is among the first five inexact values', () => {
    assert.deepEqual(
      inexactValues(`[${Array(9).fill('1e400').join()}]`).map(({ pointer }) => pointer),
      ['/0', '/1', '/2', '/3', '/4'],
    )
  })
  test('is found with the pointer of its parsed value, in random JSON', () => {
    const key = fc.string({ unit: 'grapheme', maxLength: 5 })
    const { json } = fc.letrec<{ json: unknown }>((tie) => ({
      json: fc.oneof(
        { maxDepth: 4 },
        fc.integer(),
        fc.string({ unit: 'binary' }),
        fc.double({ noNaN: true }),
        fc.constantFrom(null, true, 2 ** 53, 1e21, -(2 ** 60), '\ud800'),
        fc.array(tie('json'), { maxLength: 4 }),
        fc.dictionary(key, tie('json'), { maxKeys: 4 }),
      ),
    }))
    fc.assert(fc.property(json, fc.constantFrom(undefined, 1), (value, space) => {
      const text = JSON.stringify(value, null, space)
      const found = inexactValues(text)
      const parsed = JSON.parse(text) as unknown
      // A number such as 1e+21 is exact in text; its parsed value may have been rounded.
      const seen = inexactParsed(parsed).filter(
        ({ pointer }) => !/^\d+(\.\d+)?e\+/.test(String(Math.abs(Number(at(parsed, pointer))))),
      )
      if (seen.length < 5 && found.length < 5)
        assert.deepEqual(found.map(({ pointer }) => pointer).sort(), seen.map(({ pointer }) => pointer).sort())
      if (found.length > 0) assert.ok(mayBeInexact(text))
      assert.equal(isExact(parsed), inexactParsed(parsed).length === 0)
    }), { numRuns: 2000 })
  })
})

function at(value: unknown, pointer: string): unknown {
  return pointer
    .split('/')
    .slice(1)
    .reduce<unknown>(
      (its, key) => (its as Record<string, unknown>)[key.replaceAll('~1', '/').replaceAll('~0', '~')],
      value,
    )
}

const codeOf = (error: unknown): unknown =>
  isHttpError(error) && [error.status, error.code, error.details?.[0]?.pointer]

describe('inexact_value', () => {
  test('is a 400 for a body, with a pointer', () => {
    for (const value of INEXACT) {
      assert.throws(() => jsonOfBytes(Buffer.from(`{"a":[${value}]}`)), (error) => {
        assert.deepEqual(codeOf(error), [400, 'inexact_value', '/a/0'])
        return true
      })
    }
    for (const value of EXACT) jsonOfBytes(Buffer.from(`{"a":[${value}]}`))
  })
  test('fails one line of an upload, with a pointer', async () => {
    const written: object[] = []
    const upload = ndjsonUpload({ write: (records) => { written.push(...records) } })
    for (const value of INEXACT) {
      written.length = 0
      const response = await upload(
        fakeRequest({
          headers: { 'content-type': 'application/x-ndjson' },
          body: `{"id":1}\n{"a":[${value}]}\n{"n":6.02e23}`,
        }),
      )
      const { items } = JSON.parse(response?.body as string) as UploadResult
      assert.deepEqual(
        [items[0]?.line, items[0]?.error?.code, items[0]?.error?.details?.[0]?.pointer],
        [2, 'inexact_value', '/a/0'],
      )
      assert.deepEqual(written, [{ id: 1 }, { n: 6.02e23 }])
    }
  })
  test('is a 400 for a collection, and the repository is not called', async () => {
    let calls = 0
    const create = () => ({ id: ++calls })
    const users = collection({ repository: { create }, schema: jsonSchema<object>({ type: 'object' }) })
    const { status, json } = await ask(users, 'POST', '/', { body: '{"n":12345678901234567890}' })
    assert.deepEqual([status, json.code, calls], [400, 'inexact_value', 0])
  })
})
