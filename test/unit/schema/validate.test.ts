import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { StandardSchemaV1 } from '@standard-schema/spec'
import { type } from 'arktype'
import * as v from 'valibot'
import { z } from 'zod'
import { jsonSchema } from '../../../src/schema/json-schema.js'
import { assertSchema, isSchema, type Schema, toJsonSchema, validate } from '../../../src/schema/schema.js'

/** Fails to compile unless both types are the same. */
type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends (<T>() => T extends B ? 1 : 2) ? true : never

/** Stands for every constructor that takes a schema and a function of what comes out. */
function define<T>(schema: Schema<T>, run: (input: T) => unknown) {
  return { schema, run }
}

function standard(check: (value: unknown) => unknown): Schema {
  return { '~standard': { version: 1, vendor: 'test', validate: check as Schema['~standard']['validate'] } }
}

const zod = z.object({
  email: z.string(),
  at: z.array(z.object({ 'a/b': z.number() })),
  n: z.string().transform(Number),
})
const valibot = v.object({
  email: v.string(),
  at: v.array(v.object({ 'a/b': v.number() })),
  n: v.pipe(v.string(), v.transform(Number)),
})

describe('validate', () => {
  test('infers the type of the input from the schema, without a cast', () => {
    type Out = { email: string, at: { 'a/b': number }[], n: number }
    const byZod = define(zod, (input) => input.n)
    const byValibot = define(valibot, (input) => input.n)
    const byAjv = define(jsonSchema<{ a: 1 }>({}), (input) => input.a)
    const same: [
      Same<Parameters<typeof byZod.run>[0], Out>,
      Same<Parameters<typeof byValibot.run>[0], Out>,
      Same<Parameters<typeof byAjv.run>[0], { a: 1 }>,
      Same<StandardSchemaV1.InferOutput<typeof zod>['n'], number>,
      Same<StandardSchemaV1.InferInput<typeof zod>['n'], string>,
    ] = [true, true, true, true, true]
    for (const { schema } of [byZod, byValibot, byAjv]) assert.equal(isSchema(schema), true)
    assert.equal(same.length, 5)
  })

  for (const [name, schema] of [['zod', zod], ['valibot', valibot]] as const) {
    test(`${name}: returns the transformed value synchronously`, () => {
      const result = validate(schema, { email: 'a@b', at: [{ 'a/b': 1 }], n: '7', extra: 1 })
      assert.ok(!(result instanceof Promise) && 'value' in result)
      assert.deepEqual(result.value, { email: 'a@b', at: [{ 'a/b': 1 }], n: 7 })
    })

    test(`${name}: turns issues into details with pointers`, () => {
      const result = validate(schema, { at: [{ 'a/b': 1 }, { 'a/b': 'x' }], n: '7' })
      assert.ok(!(result instanceof Promise) && 'details' in result)
      assert.deepEqual(result.details.map((detail) => detail.pointer), ['/email', '/at/1/a~1b'])
      for (const detail of result.details) assert.match(detail.message, /\w/)
    })
  }

  test('repeats no regular expression of the schema in a message', async () => {
    const code = /^[a-z]+$/
    const schemas = {
      zod: z.object({ a: z.string().regex(code), b: z.email(), c: z.string().regex(code, 'must be lower case') }),
      valibot: v.object({
        a: v.pipe(v.string(), v.regex(code)),
        b: v.pipe(v.string(), v.email()),
        c: v.pipe(v.string(), v.regex(code, 'must be lower case')),
      }),
      arktype: type({ a: code, b: 'string.email', c: type(code).describe('lower case') }),
      ajv: jsonSchema(
        {
          properties: {
            a: { pattern: code.source },
            b: { format: 'email' },
            c: { pattern: code.source, title: 'lower case' },
          },
        },
        { formats: { email: /@/ } },
      ),
    }
    for (const [name, schema] of Object.entries(schemas)) {
      const result = await validate(schema as Schema, { a: 'A', b: 'B', c: 'C' })
      assert.ok('details' in result)
      const [a, b, c] = result.details.map(({ message }) => message)
      assert.equal(a, 'does not match the pattern', name)
      assert.match(b ?? '', /e-?mail/i, name)
      assert.match(c ?? '', /lower case/, name)
      assert.doesNotMatch(JSON.stringify(result.details), /\[a-z\]/, name)
    }
  })

  test('awaits asynchronous checks of zod', async () => {
    const schema = z.string().refine(async (text) => text === 'yes')
    const good = validate(schema, 'yes')
    assert.ok(good instanceof Promise)
    assert.deepEqual(await good, { value: 'yes' })
    assert.deepEqual(await validate(schema, 'no'), { details: [{ pointer: '', message: 'Invalid input' }] })
  })

  test('awaits asynchronous checks of valibot', async () => {
    const schema = v.pipeAsync(v.string(), v.checkAsync(async (text) => text === 'yes', 'say yes'))
    assert.deepEqual(await validate(schema, 'no'), { details: [{ pointer: '', message: 'say yes' }] })
  })

  test('passes on an error that a validator throws or rejects with', async () => {
    const defect = new Error('defect')
    assert.throws(() => validate(standard(() => { throw defect }), 1), defect)
    await assert.rejects(async () => validate(standard(() => Promise.reject(defect)), 1), defect)
  })

  test('has at most 20 details, cuts long messages, and fails even without an issue', () => {
    const issues = Array.from({ length: 50 }, (_, index) => ({ message: 'x'.repeat(1000), path: [index] }))
    const many = validate(standard(() => ({ issues })), 1)
    assert.ok(!(many instanceof Promise) && 'details' in many)
    assert.equal(many.details.length, 20)
    assert.equal(many.details[0]?.message.length, 300)
    assert.deepEqual(
      validate(
        standard(() => ({ issues: [] })),
        1,
      ),
      { details: [{ pointer: '', message: 'is not valid' }] },
    )
  })
})

describe('schemas', () => {
  test('are objects and functions with ~standard, and no other values', () => {
    const callable = Object.assign(() => 1, standard((value) => ({ value })))
    for (const good of [zod, valibot, jsonSchema({}), callable]) assert.equal(isSchema(good), true)
    for (const bad of [undefined, null, 1, {}, { '~standard': null }, { '~standard': {} }, { type: 'string' }])
      assert.equal(isSchema(bad), false)
    assert.throws(
      () => assertSchema({ type: 'string' }, 'task «export»: input'),
      /^TypeError: task «export»: input must be .*jsonSchema\(/,
    )
  })

  test('return their JSON Schema if the library can create one', () => {
    const source = { $schema: 'https://json-schema.org/draft/2020-12/schema', type: 'object', required: ['a'] }
    assert.deepEqual(toJsonSchema(jsonSchema(source)), { type: 'object', required: ['a'] })
    assert.deepEqual(toJsonSchema(z.object({ a: z.string() })), {
      type: 'object',
      properties: { a: { type: 'string' } },
      required: ['a'],
    })
    assert.equal(toJsonSchema(valibot), undefined)
    assert.equal(toJsonSchema(z.date()), undefined)
    assert.equal(toJsonSchema(zod, 'output'), undefined)
    assert.equal(toJsonSchema(zod, 'input')?.['type'], 'object')
    assert.throws(
      () => jsonSchema({})['~standard'].jsonSchema.input({ target: 'draft-07' }),
      /only the target draft-2020-12/,
    )
  })
})
