import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { schemaFault } from '../../../src/schema/schema-fault.js'

const META = 'https://json-schema.org/draft/2020-12'
const ajv = new Ajv2020({ logger: false })
const isValid = (schema: unknown) => ajv.validate(`${META}/schema`, schema)

/** All keywords that the files of the meta-schema name. */
const FILES = [
  'schema', 'meta/core', 'meta/applicator', 'meta/unevaluated', 'meta/validation', 'meta/meta-data',
  'meta/format-annotation', 'meta/content',
]
const KEYWORDS = FILES.flatMap((file) => {
  const { properties } = ajv.getSchema(`${META}/${file}`)?.schema as { properties: object }
  return Object.keys(properties)
})

const PARTS = [
  null, true, false, 0, 1, -1, 1.5, '', 'x', '1a', 'a b', '#', 'a#', 'a#b', 'string', 'integer',
  [], [1], ['a'], ['a', 'a'], ['a', 1], [{}], [true], [{}, 5], ['string'], ['string', 'null'], ['string', 'string'], ['strin'],
  {}, { a: 1 }, { a: true }, { a: {} }, { a: 'x' }, { a: ['x'] }, { a: ['x', 'x'] }, { a: [1] }, { type: 'strin' }, { a: { type: 1 } },
]

describe('schemaFault', () => {
  test('it agrees with the meta-schema about every keyword', () => {
    assert.ok(KEYWORDS.length > 55, String(KEYWORDS.length))
    for (const keyword of KEYWORDS) {
      for (const part of PARTS) {
        const schema = { [keyword]: part }
        assert.equal(schemaFault(schema) === undefined, isValid(schema), JSON.stringify(schema))
      }
    }
  })

  test('it agrees with the meta-schema about what is no schema', () => {
    for (const part of [null, 1, 'x', [], [{}], true, false, {}, { unknown: 1 }]) {
      assert.equal(schemaFault(part) === undefined, isValid(part), JSON.stringify(part))
    }
  })

  for (const [schema, fault] of [
    [{ type: 'strin' }, 'schema/type must be one or several of array, boolean, integer, null, number, object, string'],
    [{ properties: { 'a/b': { minLength: -1 } } }, 'schema/properties/a~1b/minLength must be an integer from 0 up'],
    [{ anyOf: [{}, { required: 'x' }] }, 'schema/anyOf/1/required must be an array'],
    [{ items: 5 }, 'schema/items must be a schema: an object or a boolean'],
    [{ oneOf: [] }, 'schema/oneOf must not be empty'],
  ] as const) {
    test(fault, () => {
      assert.equal(schemaFault(schema), fault)
    })
  }
})
