import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { jsonSchema, type JsonSchemaOptions } from '../../../src/schema/json-schema.js'
import { validate } from '../../../src/schema/schema.js'

const user = jsonSchema<{ name: string, email: string }>({
  type: 'object',
  properties: { name: { type: 'string' }, email: { type: 'string', minLength: 3 } },
  required: ['name', 'email'],
  additionalProperties: false,
})

function details(schema: object, value: unknown, options?: JsonSchemaOptions) {
  const result = validate(jsonSchema(schema, options), value)
  assert.ok(!(result instanceof Promise))
  return 'details' in result ? result.details : undefined
}

describe('jsonSchema: values', () => {
  test('a valid value is returned unchanged, in a plain result object', () => {
    const value = { name: 'Ada', email: 'ada@example.org' }
    assert.deepEqual(validate(user, value), { value })
  })

  test('nothing is coerced, and no default is applied', () => {
    const schema = jsonSchema({
      type: 'object',
      properties: { n: { type: 'integer', default: 1 }, s: { type: 'string' } },
    })
    const value = Object.freeze({ s: 'x' })
    assert.deepEqual(validate(schema, value), { value: { s: 'x' } })
    assert.deepEqual(details({ type: 'integer' }, '1'), [{ pointer: '', message: 'must be integer' }])
  })

  test('useDefaults fills missing properties of the value that is checked', () => {
    const schema = jsonSchema(
      { type: 'object', properties: { n: { type: 'integer', default: 1 } } },
      { useDefaults: true },
    )
    const value = {}
    assert.deepEqual(validate(schema, value), { value: { n: 1 } })
    assert.deepEqual(value, { n: 1 })
  })

  test('a missing key and an extra key have their own pointers', () => {
    assert.deepEqual(validate(user, { name: 1, 'a/b~c': true }), {
      details: [
        { pointer: '/email', message: 'is required' },
        { pointer: '/a~1b~0c', message: 'is not allowed' },
        { pointer: '/name', message: 'must be string' },
      ],
    })
  })

  for (const [schema, value, expected] of [
    [{ properties: { a: { items: { required: ['b'] } } } }, { a: [{ b: 1 }, {}] }, ['/a/1/b', 'is required']],
    [{ dependentRequired: { a: ['b'] } }, { a: 1 }, ['/b', 'is required beside "a"']],
    [{ propertyNames: { pattern: '^a' } }, { bad: 1 }, ['/bad', 'is not an allowed name']],
    [{ properties: { a: true }, unevaluatedProperties: false }, { a: 1, z: 1 }, ['/z', 'is not allowed']],
    [{ properties: { a: false } }, { a: 1 }, ['/a', 'is not allowed']],
    [{ type: ['string', 'null'] }, 1, ['', 'must be string or null']],
    [{ enum: ['reader', 'writer'] }, 'x', ['', 'must be one of "reader", "writer"']],
    [
      { enum: Array.from({ length: 100 }, (_, index) => `value-${index}`) },
      'x',
      ['', 'is not one of the allowed values'],
    ],
    [{ const: { a: 1 } }, 'x', ['', 'must be {"a":1}']],
    [{ minLength: 2 }, 'x', ['', 'must not have fewer than 2 characters']],
    [{ maxItems: 1 }, [1, 2], ['', 'must not have more than 1 items']],
    [{ uniqueItems: true }, [1, 2, 1], ['', 'must not have equal items (0 and 2 are)']],
    [{ if: { type: 'number' }, then: { minimum: 10 } }, 3, ['', 'must be >= 10']],
    [{ contains: { type: 'string' } }, [], ['', 'must contain at least 1 valid item(s)']],
    [{ oneOf: [{ minimum: 1 }, { minimum: 2 }] }, 3, ['', 'must match exactly one of the allowed forms']],
    [{ not: { type: 'number' } }, 3, ['', 'is not allowed']],
    [{ pattern: '^[a-z]+$' }, 'X', ['', 'does not match the pattern']],
    [
      {
        properties: { 'a/b': { $ref: '#/$defs/code' } },
        $defs: { code: { pattern: '^x', title: 'a code such as x1' } },
      },
      { 'a/b': 'y' },
      ['/a~1b', 'does not match the pattern: a code such as x1'],
    ],
    [{ allOf: [{ pattern: '^x', description: 'd'.repeat(121) }] }, 'y', ['', 'does not match the pattern']],
  ] as const) {
    test(`${JSON.stringify(schema).slice(0, 70)} gives ${expected[0]} ${expected[1]}`, () => {
      assert.deepEqual(details(schema, value), [{ pointer: expected[0], message: expected[1] }])
    })
  }

  test('an error inside of anyOf is listed beside the error of anyOf', () => {
    assert.deepEqual(details({ anyOf: [{ type: 'number' }, { minLength: 1 }] }, ''), [
      { pointer: '', message: 'must be number' },
      { pointer: '', message: 'must not have fewer than 1 characters' },
      { pointer: '', message: 'must match at least one of the allowed forms' },
    ])
  })

  test('format is an annotation unless formats are given', () => {
    const schema = { type: 'string', format: 'email' }
    assert.equal(details(schema, 'x'), undefined)
    assert.deepEqual(details(schema, 'x', { formats: { email: /@/ } }), [
      { pointer: '', message: 'must be an e-mail address' },
    ])
    assert.deepEqual(details({ format: 'iban' }, 'x', { formats: { iban: /@/ } }), [
      { pointer: '', message: 'must have the format iban' },
    ])
    assert.equal(details(schema, 'x@y', { formats: { email: (text) => text.includes('@') } }), undefined)
    assert.equal(details(schema, 'x', { formats: { email: true } }), undefined)
  })
})

describe('jsonSchema: hostile values', () => {
  test('a small value lists at most 20 errors', () => {
    const schema = jsonSchema({ items: { type: 'string' } })
    const value = Array.from({ length: 500 }, () => 1)
    const found = schema['~standard'].validate(value)
    assert.ok(!(found instanceof Promise))
    assert.equal(found.issues?.length, 20)
    assert.deepEqual(found.issues[19], { path: ['19'], message: 'must be string' })
    const { details: listed } = validate(schema, value) as { details: unknown[] }
    assert.deepEqual(listed[19], { pointer: '/19', message: 'must be string' })
  })

  test('a large value stops at the first error', () => {
    const found = details({ items: { type: 'string' } }, Array.from({ length: 100_000 }, () => 1))
    assert.deepEqual(found, [{ pointer: '/0', message: 'must be string' }])
  })

  test('a value that is nested deeper than the stack is rejected without a crash', () => {
    const tree = { type: 'object', properties: { child: { $ref: '#' } } }
    let value: object = {}
    for (let depth = 0; depth < 200_000; depth++) value = { child: value }
    assert.deepEqual(details(tree, value), [{ pointer: '', message: 'is nested too deeply' }])
  })

  test('a key from the client never makes a pointer longer than 512 characters', () => {
    const found = details({ additionalProperties: { additionalProperties: false } }, { ok: { ['/'.repeat(400)]: 1 } })
    assert.deepEqual(found, [{ pointer: '/ok', message: 'is not allowed' }])
  })

  test('errors are released after the call', () => {
    const schema = jsonSchema({ type: 'string' })
    const failed = validate(schema, 1)
    assert.deepEqual(validate(schema, 'x'), { value: 'x' })
    assert.deepEqual(failed, { details: [{ pointer: '', message: 'must be string' }] })
  })
})

describe('jsonSchema: construction', () => {
  for (const [name, schema, options, message] of [
    ['a wrong type', { type: 'strin' }, {}, /type must be JSONType/],
    ['an unknown keyword', { typo: 1 }, {}, /unknown keyword: "typo".*check its spelling/],
    ['a reference to nowhere', { $ref: '#/$defs/none' }, {}, /put what it refers to under \$defs/],
    ['an unknown format', { type: 'string', format: 'mail' }, { formats: {} }, /add it to the option formats/],
    ['a pattern that is none', { type: 'string', pattern: '(' }, {}, /jsonSchema: .*/],
    [
      'another dialect',
      { $schema: 'http://json-schema.org/draft-07/schema#' },
      {},
      /only JSON Schema 2020-12 .* port the schema/,
    ],
    ['an asynchronous schema', { $async: true }, {}, /\$async schemas are not supported/],
    ['an array', [], {}, /pass a JSON Schema object/],
    ['a function inside', { type: () => 'string' }, {}, /must be plain data/],
  ] as const) {
    test(`${name} throws a TypeError that says what to do`, () => {
      assert.throws(
        () => jsonSchema(schema, options),
        (error: unknown) => error instanceof TypeError && message.test(error.message),
      )
    })
  }

  test('annotations of OpenAPI, $schema of 2020-12, and one $id twice are accepted', () => {
    const schema = {
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      $id: 'urn:example:x',
      type: 'string',
      example: 'x',
    }
    assert.doesNotThrow(() => [jsonSchema(schema), jsonSchema(schema)])
  })

  test('a later change of the schema object changes nothing', () => {
    const source = { type: 'string', minLength: 1 }
    const schema = jsonSchema(source)
    source.minLength = 9
    assert.deepEqual(validate(schema, 'x'), { value: 'x' })
    assert.deepEqual(schema['~standard'].jsonSchema.input({ target: 'draft-2020-12' }), {
      type: 'string',
      minLength: 1,
    })
  })
})
