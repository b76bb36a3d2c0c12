import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { jsonSchema } from '../../../src/schema/json-schema.js'
import { fromPointer, toPointer, type PathStep } from '../../../src/schema/pointer.js'
import { hasAtMost } from '../../../src/runtime/json.js'
import { validate } from '../../../src/schema/schema.js'

const awkward = fc.oneof(
  fc.string({ maxLength: 20 }),
  fc.constantFrom('', '/', '~', '~1', '~01', '__proto__', 'constructor', 'a b', '0', '"', '\u0000'),
)

describe('JSON pointers', () => {
  test('pass the examples of RFC 6901 section 5', () => {
    for (const [path, pointer] of [
      [[], ''], [['foo'], '/foo'], [['foo', 0], '/foo/0'], [[''], '/'], [['a/b'], '/a~1b'], [['c%d'], '/c%d'],
      [['e^f'], '/e^f'], [['g|h'], '/g|h'], [['i\\j'], '/i\\j'], [['k"l'], '/k"l'], [[' '], '/ '], [['m~n'], '/m~0n'],
    ] as const) assert.equal(toPointer(path), pointer)
  })

  test('have steps that are keys, objects with a key, or symbols', () => {
    assert.equal(toPointer(['a', { key: 1 }, { key: 'b/c' }, Symbol('d')]), '/a/1/b~1c/d')
    assert.equal(toPointer(undefined), '')
  })

  test('lead back to the path, for every path', () => {
    fc.assert(fc.property(fc.array(awkward, { maxLength: 10 }), (path) => {
      assert.deepEqual(fromPointer(toPointer(path)), path)
    }))
  })

  test('have at most 512 characters, and lead to a parent of the path if they are cut', () => {
    const step: fc.Arbitrary<PathStep> = fc.oneof(
      fc.string({ maxLength: 900 }),
      fc.constant('~'.repeat(300)),
      fc.nat(),
      awkward.map((key) => ({ key })),
    )
    fc.assert(fc.property(fc.array(step, { maxLength: 12 }), (path) => {
      const pointer = toPointer(path)
      assert.ok(pointer.length <= 512)
      const keys = path.map((part) => String(typeof part === 'object' ? part.key : part))
      const found = fromPointer(pointer)
      assert.deepEqual(found, keys.slice(0, found.length))
      if (keys.join('').length < 100) assert.equal(found.length, keys.length)
    }))
  })

  test('lead to an invalid value that ajv found, with any keys', () => {
    const tree = jsonSchema({
      $defs: { node: { anyOf: [{ type: 'object', additionalProperties: { $ref: '#/$defs/node' } }, { const: 1 }] } },
      $ref: '#/$defs/node',
    })
    const key = awkward.filter((text) => text !== '__proto__')
    fc.assert(fc.property(fc.array(key, { minLength: 1, maxLength: 6 }), (path) => {
      const value = path.reduceRight<unknown>((inner, name) => ({ [name]: inner }), 'wrong')
      const result = validate(tree, value)
      assert.ok(!(result instanceof Promise) && 'details' in result)
      assert.ok(result.details.some((detail) => detail.pointer === toPointer(path)))
    }))
  })
})

test('hasAtMost agrees with a plain recursive count', () => {
  const count = (value: unknown): number =>
    typeof value === 'object' && value !== null
      ? Object.values(value).reduce<number>((sum, inner) => sum + 1 + count(inner), 0)
      : 0
  fc.assert(fc.property(fc.jsonValue(), fc.nat(30), (value, limit) => {
    assert.equal(hasAtMost(value, limit), count(value) <= limit)
  }))
  assert.equal(hasAtMost([undefined, undefined, {}], 3), true)
  assert.equal(hasAtMost([[1, 2], undefined], 3), false)
})
