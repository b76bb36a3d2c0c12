import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { runInNewContext } from 'node:vm'
import fc from 'fast-check'
import { z } from 'zod'
import { compileJson } from '../../../../src/http/body/compile-json.js'

type Schema = Record<string, unknown>

const integer = { type: 'integer' }
const record = {
  type: 'object',
  properties: {
    n: integer,
    word: { enum: ['a', 'c'] },
    when: { type: 'string', format: 'date' },
    tags: { type: 'array', items: { type: 'string' } },
    flag: { type: 'boolean', default: true },
  },
  required: ['n'],
}

describe('a value that does not fit the schema is written as JSON.stringify writes it', () => {
  const VALUES: Record<string, unknown> = {
    'null for an integer': { n: null },
    'a fraction for an integer': { n: 9.99 },
    'text for an integer': { n: '7' },
    'a missing required property': {},
    'undefined': { n: undefined },
    'a word beside an enum': { n: 1, word: 'b' },
    'a date for a date': { n: 1, when: new Date(0) },
    'an invalid date': { n: 1, when: new Date(NaN) },
    'a number for an array': { n: 1, tags: 7 },
    'an object for an array': { n: 1, tags: { 0: 'x' } },
    'numbers for strings': { n: 1, tags: [1, null, 'x'] },
    'text for a boolean': { n: 1, flag: 'false' },
    'NaN and Infinity': { n: NaN, when: -Infinity },
    'minus zero': { n: -0 },
    'half of a surrogate pair': { n: 1, word: '\ud800' },
    'a boxed number': { n: Object(5) },
    'a function': { n: () => 1, word: Symbol('x') },
    'an object for an integer': { n: { deep: [1, { x: null }] } },
    'bytes': { n: Buffer.from('ab') },
    'a Map': { n: new Map([[1, 2]]) },
    'an array with a hole': { n: 1, tags: Array(2) },
    'a toJSON': { n: { toJSON: (key: string) => `from ${key}` } },
  }
  for (const [name, value] of Object.entries(VALUES)) {
    test(name, () => {
      const text = JSON.stringify(value)
      assert.deepEqual(JSON.parse(compileJson(record)(value)), JSON.parse(text), text)
      assert.equal(
        compileJson({ type: 'array', items: record })([value, value]),
        `[${compileJson(record)(value)},${compileJson(record)(value)}]`,
      )
    })
  }
  test('such as a bigint and a circular value, which throw', () => {
    const circular: Record<string, unknown> = {}
    circular['n'] = circular
    for (const value of [{ n: 1n }, circular]) assert.throws(() => compileJson(record)(value), TypeError)
  })
  test('such as a record, an array, text or null where the schema has something else', () => {
    for (const value of [null, 'x', 7, [], [{ n: 1 }], true])
      assert.equal(compileJson(record)(value), JSON.stringify(value))
  })
})

describe('properties that the schema does not name are left out', () => {
  const left = (schema: Schema, value: unknown): unknown => JSON.parse(compileJson(schema)(value))
  const secret = { n: 1, secret: 's' }
  class Row {
    constructor(readonly n: unknown, readonly secret = 's') {}
    get word(): string { return 'inherited' }
  }
  test('in plain objects, instances, objects of another realm or without prototype, and results of toJSON', () => {
    for (const value of [
      secret,
      new Row(1),
      runInNewContext('({ n: 1, secret: 2 })'),
      Object.assign(Object.create(null) as object, secret),
      { toJSON: () => secret },
      new Row({ toJSON: () => 1 }),
    ]) {
      assert.deepEqual(left(record, value), { n: 1 })
    }
  })
  test('in arrays, references, alternatives and allOf', () => {
    const item = { type: 'object', properties: { id: integer } }
    const schema = {
      $defs: { item, 'a/b': item },
      type: 'object',
      properties: {
        list: { type: 'array', items: { $ref: '#/$defs/item' } },
        maybe: { anyOf: [item, { type: 'null' }] },
        part: { allOf: [item, { properties: { name: {} } }] },
        one: { oneOf: [{ $ref: '#/$defs/a~1b' }, { type: 'string' }] },
        tuple: { prefixItems: [item] },
      },
    }
    const value = { id: 1, x: 2 }
    assert.deepEqual(
      left(schema, { list: [value], maybe: value, part: { ...value, name: 'n' }, one: value, tuple: [value] }),
      {
        list: [{ id: 1 }],
        maybe: { id: 1 },
        part: { id: 1, name: 'n' },
        one: { id: 1 },
        tuple: [{ id: 1 }],
      },
    )
    assert.deepEqual(left(schema, { maybe: null, one: 'text' }), { maybe: null, one: 'text' })
  })
  test('in recursive schemas, by $ref, $id and $anchor', () => {
    for (const $ref of ['#', 'node', '#top']) {
      const schema = {
        $id: 'node',
        $anchor: 'top',
        type: 'object',
        properties: { id: integer, children: { type: 'array', items: { $ref } } },
      }
      assert.deepEqual(left(schema, { id: 1, x: 1, children: [{ id: 2, x: 1, children: [] }] }), {
        id: 1,
        children: [{ id: 2, children: [] }],
      })
    }
  })
  test('unless a schema names none, or allows more', () => {
    for (const schema of [
      {},
      { type: 'object' },
      { properties: { n: {} }, additionalProperties: true },
      { properties: { n: {} }, additionalProperties: {} },
      { type: 'object', properties: { meta: { type: 'object' } }, patternProperties: { '^(n|secret)$': {} } },
    ]) {
      assert.deepEqual(left(schema, secret), secret)
    }
    assert.deepEqual(left({ additionalProperties: record }, { x: secret }), { x: { n: 1 } })
    assert.deepEqual(left({ type: 'object', properties: {}, additionalProperties: false }, secret), {})
  })
  test('in a schema of zod', () => {
    const schema = z.object({
      id: z.number(),
      user: z.object({ name: z.string() }).nullable(),
      list: z.array(z.looseObject({})),
    })
    assert.deepEqual(
      left(z.toJSONSchema(schema, { io: 'output' }), {
        id: 1,
        user: { name: 'x', hash: 'y' },
        list: [{ any: 1 }],
        z: 1,
      }),
      { id: 1, user: { name: 'x' }, list: [{ any: 1 }] },
    )
  })
  test('although names of Object.prototype are read only from the record', () => {
    const schema = JSON.parse(
      '{"type":"object","properties":{"constructor":{},"toString":{},"__proto__":{},"n":{}}}',
    ) as Schema
    assert.equal(compileJson(schema)({ n: 1 }), '{"n":1}')
    const text = '{"constructor":1,"__proto__":{"a":1}}'
    assert.equal(compileJson(schema)(JSON.parse(text)), text)
  })
})

describe('a schema of closed objects, arrays and leaves of one type', () => {
  const string = { type: 'string' }
  const closed = (...names: string[]): Schema => ({
    type: 'object',
    properties: Object.fromEntries(names.map((name) => [name, string])),
  })
  const NAMES = [
    'constructor',
    'toString',
    '__proto__',
    '$ref',
    '$id',
    'type',
    'items',
    'properties',
    'required',
    'nullable',
    '\u2028`*/',
    "'\\",
    'toJSON',
  ]

  test('is written by fast-json-stringify, in the order of the schema', () => {
    assert.equal(compileJson(closed('a', 'b'))({ b: 'B', a: 'A' }), '{"a":"A","b":"B"}')
    assert.equal(compileJson(closed('a', 'b'))({ b: 'B', a: null }), '{"b":"B","a":null}')
  })
  test('may have any names', () => {
    for (const name of NAMES) {
      const text = JSON.stringify({ [name]: 'x', a: 'y' })
      assert.equal(compileJson(closed(name, 'a'))(JSON.parse(text)), text)
      assert.equal(compileJson(closed(name, 'a'))({ a: 'y' }), '{"a":"y"}')
    }
    const text = JSON.stringify(Object.fromEntries(NAMES.map((name) => [name, name])))
    assert.equal(compileJson({ type: 'array', items: closed(...NAMES) })([JSON.parse(text)]), `[${text}]`)
  })
  test('leaves out what is inherited or not enumerable', () => {
    const hidden = Object.defineProperty({ a: 'x' }, 'b', { value: 'secret' })
    assert.equal(compileJson(closed('a', 'b'))(hidden), '{"a":"x"}')
    assert.equal(
      compileJson(closed('a', 'b'))(Object.create({ b: 'secret' }, { a: { value: 'x', enumerable: true } })),
      '{"a":"x"}',
    )
  })
  test('does not treat an array without its prototype as an object', () => {
    for (const prototype of [null, Object.prototype]) {
      assert.equal(compileJson(closed('0'))(Object.setPrototypeOf(['x'], prototype)), '["x"]')
    }
  })
  test('may be deep, or contain one part a million times', () => {
    let schema: Schema = string
    let value: unknown = 'x'
    for (let depth = 0; depth < 300; depth++)
      [schema, value] = [{ type: 'object', properties: { a: schema } }, { a: value }]
    assert.equal(compileJson(schema)(value), JSON.stringify(value))
    const $defs = Object.fromEntries(
      Array.from({ length: 20 }, (_, at) => [
        at,
        { type: 'object', properties: { a: { $ref: `#/$defs/${at + 1}` }, b: { $ref: `#/$defs/${at + 1}` } } },
      ]),
    )
    assert.equal(
      compileJson({ $ref: '#/$defs/0', $defs: { ...$defs, 20: string } })({ a: { b: { c: 1 } } }),
      '{"a":{"b":{}}}',
    )
  })
})

test('a schema that is not an object, or has a missing part, is rejected at construction', () => {
  for (const schema of [
    null,
    true,
    [],
    'x',
    { $ref: '#/$defs/none' },
    { properties: { a: { $ref: 'https://example.com/other' } } },
  ]) {
    assert.throws(() => compileJson(schema as Schema), TypeError)
  }
})

test('random values and schemas give the JSON.stringify text of the named properties, or both sides throw', () => {
  const names = ['a', 'b', 'c', '__proto__x', 'to"quote', '']
  const leaf = fc.constantFrom<Schema>(
    integer,
    { type: 'number' },
    { type: 'string' },
    { type: 'boolean' },
    { type: 'null' },
    { enum: ['a'] },
    { const: 1 },
    {},
    { type: ['string', 'null'] },
    { type: 'string', format: 'date-time' },
    { default: 5 },
  )
  const { schema } = fc.letrec<{ schema: Schema }>((tie) => ({
    schema: fc.oneof(
      { maxDepth: 3 },
      leaf,
      fc
        .dictionary(fc.constantFrom(...names), tie('schema'), { minKeys: 1 })
        .map((properties) => ({ type: 'object', properties, required: Object.keys(properties) })),
      tie('schema').map((items) => ({ type: 'array', items })),
    ),
  }))
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 4 },
      fc.constantFrom<unknown>(
        null,
        undefined,
        NaN,
        -0,
        1.5,
        'b',
        true,
        5n,
        '\ud800',
        new Date(0),
        new Date(NaN),
        Object('boxed'),
      ),
      fc.double(),
      fc.string({ unit: 'binary' }),
      fc.integer(),
      fc.dictionary(fc.constantFrom(...names), tie('value')),
      fc.array(tie('value')),
    ),
  }))
  const kept = (its: Schema | undefined, given: unknown): unknown => {
    if (typeof given !== 'object' || given === null || given instanceof Date || given instanceof String) return given
    if (Array.isArray(given)) return given.map((each) => kept(its?.['items'] as Schema | undefined, each))
    const properties = its?.['properties'] as Record<string, Schema> | undefined
    return Object.fromEntries(
      Object.entries(given)
        .filter(([name]) => !properties || Object.hasOwn(properties, name))
        .map(([name, each]) => [name, kept(properties?.[name], each)]),
    )
  }
  const written = (write: () => string | undefined): unknown => {
    try {
      const text = write()
      return text === undefined ? undefined : JSON.parse(text) as unknown
    } catch (error) {
      assert.ok(error instanceof TypeError)
      return 'throws'
    }
  }
  fc.assert(fc.property(schema, value, (its, given) => {
    assert.deepEqual(written(() => compileJson(its)(given)), written(() => JSON.stringify(kept(its, given))))
  }), { numRuns: 3000 })
})
