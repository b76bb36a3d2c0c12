import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { EqualValues } from '../../../src/schema/unique-items.js'
import { jsonSchema } from '../../../src/schema/json-schema.js'

const issuesOf = (schema: object, value: unknown) => {
  const result = jsonSchema(schema)['~standard'].validate(value)
  assert.ok(!('then' in result))
  return result.issues
}
const unique = { type: 'array', uniqueItems: true }
const ajv = new Ajv2020().compile(unique)

/** How often a value is looked at, which no other work on the machine changes. */
function looksAt(value: unknown): { value: unknown, readonly looks: () => number } {
  let looks = 0
  const watched = (each: unknown): unknown => {
    if (typeof each !== 'object' || each === null) return each
    if (Array.isArray(each)) return each.map(watched)
    const members = Object.entries(each).map(([name, member]) => [name, watched(member)] as const)
    return new Proxy(Object.fromEntries(members), { ownKeys: (target) => { looks++; return Reflect.ownKeys(target) } })
  }
  return { value: watched(value), looks: () => looks }
}

describe('uniqueItems', () => {
  test('reads each object once, and not again for each other object', () => {
    for (const count of [100, 1000, 10_000]) {
      const { value, looks } = looksAt(Array.from({ length: count }, (_, a) => ({ a, b: [{ c: a }] })))
      assert.equal(issuesOf(unique, value), undefined)
      assert.equal(looks(), 2 * count)
    }
  })

  test('reads each value once for all levels in a recursive schema', () => {
    const schema = { $defs: { tree: { uniqueItems: true, items: { $ref: '#/$defs/tree' } } }, $ref: '#/$defs/tree' }
    const leaf = Array.from({ length: 50 }, (_, a) => ({ a }))
    let tree: unknown = leaf
    for (let depth = 0; depth < 200; depth++) tree = [depth, tree]
    const { value, looks } = looksAt(tree)
    assert.equal(issuesOf(schema, value), undefined)
    assert.equal(looks(), leaf.length)
  })

  test('holds the event loop for less than seconds with 133 kB of small objects', () => {
    const value: unknown = JSON.parse(`[${Array.from({ length: 14_000 }, (_, a) => `{"a":${a}}`).join()}]`)
    const before = process.cpuUsage()
    assert.equal(issuesOf(unique, value), undefined)
    // Each with each other one: 98 million comparisons, 3.3 s.
    assert.ok(process.cpuUsage(before).user < 1_000_000)
  })

  for (const [items, equal] of [
    [[1, 1.0], true],
    [[0, -0], true],
    [[1, '1'], false],
    [[true, 'true'], false],
    [[null, 'null'], false],
    [[1, true], false],
    [[0, false], false],
    [
      [
        { a: 1, b: 2 },
        { b: 2, a: 1 },
      ],
      true,
    ],
    [[{ a: 1 }, { a: 1, b: undefined }], false],
    [[{}, []], false],
    [[[], [[]]], false],
    [
      [
        [1, 2],
        [2, 1],
      ],
      false,
    ],
    [
      [
        [1, [2]],
        [1, [2]],
      ],
      true,
    ],
    [['a,b', ['a', 'b']], false],
    [[['a,b'], ['a', 'b']], false],
    [[{ 'a:1,b': 2 }, { a: 1, b: 2 }], false],
    [[{ a: { b: 1 } }, { a: { b: 2 } }], false],
    [[new Date(1), new Date(2)], false],
    [[new Date(1), new Date(1)], true],
    [['é', 'e\u0301'], false],
    [[{ toJSON: 1 }, { toJSON: 2 }], false],
    [[{ '"': '"' }, { '"': '\\"' }], false],
  ] as const) {
    test(`finds ${equal ? '' : 'no '}equal items in ${JSON.stringify(items)}`, () => {
      const issues = equal ? [{ message: 'must not have equal items (0 and 1 are)', path: [] }] : undefined
      assert.deepEqual(issuesOf(unique, items), issues)
    })
  }

  test('finds equal items as ajv does, and names two equal items', () => {
    const json = fc.letrec((tie) => ({
      value: fc.oneof({ depthSize: 'small' },
        fc.constantFrom(0, -0, 1, 1e21, '', '0', '1', 'a', '"', ',', null, true, false),
        fc.array(tie('value'), { maxLength: 3 }),
        fc.dictionary(fc.constantFrom('a', 'b', '"', ':', 'a,b'), tie('value'), { maxKeys: 3, noNullPrototype: true })),
    })).value
    fc.assert(fc.property(fc.array(json, { maxLength: 6 }), (items) => {
      const [issue] = issuesOf(unique, items) ?? []
      assert.equal(issue === undefined, ajv(items))
      if (issue === undefined) return
      const [, j, i] =
        /^must not have equal items \((\d+) and (\d+) are\)$/.exec(issue.message) ?? assert.fail(issue.message)
      assert.ok(Number(j) < Number(i))
      assert.equal(ajv([items[Number(j)], items[Number(i)]]), false)
    }), { numRuns: 2000 })
  })

  test('names the place in its error, and allows equal items if it is false', () => {
    const schema = { properties: { tags: unique, all: { uniqueItems: false } } }
    assert.deepEqual(issuesOf(schema, { tags: ['a', 'b', 'a'], all: [1, 1] }), [
      { message: 'must not have equal items (0 and 2 are)', path: ['tags'] },
    ])
    assert.deepEqual(
      issuesOf({ type: 'object', additionalProperties: unique }, { a: [{}], b: [{}, {}] })?.map(({ path }) => path),
      [['b']],
    )
  })

  test('keeps no memory between validations', () => {
    const schema = jsonSchema(unique)
    const item = { a: 1 }
    const validate = (value: unknown) => 'issues' in schema['~standard'].validate(value)
    assert.equal(validate([item, { a: 2 }]), false)
    item.a = 2
    assert.equal(validate([item, { a: 2 }]), true)
    assert.equal(validate([item, { a: 1 }]), false)
  })

  test('rejects an item that is nested too deeply', () => {
    let deep: unknown = 1
    for (let depth = 0; depth < 100_000; depth++) deep = [deep]
    assert.deepEqual(issuesOf(unique, [deep, 1]), [{ message: 'is nested too deeply' }])
  })
})

test('equal values get the same number, and others get another number', () => {
  const values = new EqualValues()
  const one = values.numberOf({ a: [1, { b: 2, c: 3 }] })
  assert.equal(values.numberOf({ a: [1, { c: 3, b: 2 }] }), one)
  assert.notEqual(values.numberOf({ a: [1, { c: 3, b: 3 }] }), one)
})
