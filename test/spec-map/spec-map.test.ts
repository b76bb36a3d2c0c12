import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { CLAUSES } from './clauses.js'
import { CODE, codeOf } from './code.js'
import { problems } from './problems.js'
import { cited, readRules, testsOf } from './read-rules.js'
import { clauseIds } from './read-spec.js'
import { readTests, taggedTests } from './read-tests.js'

const root = join(import.meta.dirname, '..', '..')
const specified = clauseIds(readFileSync(join(root, 'docs', 'SPEC.md'), 'utf8'))

test('the specification, the list of clauses and the tests agree', () => {
  assert.deepEqual(problems(specified, CLAUSES, readTests(root)), [])
})

test('the clauses are listed in the order of the specification', () => {
  assert.deepEqual(CLAUSES.map((clause) => clause.id), specified)
})

test('each clause has code that exists', () => {
  for (const { id } of CLAUSES) assert.ok(codeOf(id).length > 0, id)
  for (const file of Object.values(CODE).flat()) assert.ok(existsSync(join(root, file)), file)
})

test('each rule of an RFC that the code cites has a test near it', () => {
  const rules = readRules(root)
  assert.ok(rules.size >= 80)
  const testsFor = testsOf(root)
  assert.deepEqual([...rules].filter(([, files]) => files.flatMap(testsFor).length === 0).map(([id]) => id), [])
})

test('citations of rules are recognised', () => {
  assert.deepEqual(
    cited("(RFC 9110 section 13.1.1: x), RFC 7240 4.3. RFC 6901 and RFC 6761, 6762; RFC 9110's 12.5.1, RFC 6901"),
    ['RFC 9110 section 13.1.1', 'RFC 7240 section 4.3', 'RFC 6901', 'RFC 6761', 'RFC 9110 section 12.5.1'],
  )
})

describe('the report of the map', () => {
  const clauses = [{ id: '4.6.1', about: 'first' }, { id: '4.6.2', about: 'second', planned: 'later' }]
  const proof = { file: 'a.test.ts', clauses: ['4.6.1'], title: 'answers' }
  const both = ['4.6.1', '4.6.2']

  test('is empty if specification, clauses and tests agree', () => {
    assert.deepEqual(problems(both, clauses, [proof]), [])
  })
  test('contains a clause without a test', () => {
    assert.deepEqual(problems(both, clauses, []), ['4.6.1 (first) has no test'])
  })
  test('contains a planned clause that has a test', () => {
    const found = problems(both, clauses, [{ ...proof, clauses: both }])
    assert.deepEqual(found, ['4.6.2 has a test: take its «planned» out of clauses.ts'])
  })
  test('contains a tag that names no clause', () => {
    const found = problems(both, clauses, [proof, { ...proof, clauses: ['4.6.9'] }])
    assert.deepEqual(found, ['a.test.ts: «SPEC 4.6.9» names no clause'])
  })
  test('contains a rule that only one side has', () => {
    assert.deepEqual(problems(['4.6.1', '4.6.2', '4.6.3'], clauses, [proof]), [
      'docs/SPEC.md has 4.6.3, clauses.ts does not',
    ])
    assert.deepEqual(problems(['4.6.1'], clauses, [proof]), ['clauses.ts has 4.6.2, docs/SPEC.md does not'])
  })
})

describe('the reader of the specification and of the tests', () => {
  test('finds sections, rules, both lists of 4.9, the poll, and the rows of the tables of promises', () => {
    for (const id of [
      '1.1', '2.4', '2.9', '3.1', '4.1.PATCH', '4.6.poll', '4.6.5', '4.9.format.4', '4.9.upload.3',
      '7.404', '7.6', '9.uri-versioning', '9.3',
    ]) {
      assert.ok(specified.includes(id), id)
    }
    assert.ok(!specified.includes('2.10'))
    assert.equal(new Set(specified).size, specified.length)
  })

  test('finds titles with one tag or several, in any quotes, and no others', () => {
    // Put together here, so that this file has no such title itself.
    const title = (text: string) => `SPEC ${text}`
    const source = [
      `test('${title('4.6.2: it\\\'s there')}', () => {})`,
      `  await t.test(\`${title('2.4, 3.1: both')}\`, async () => {})`,
      `it(\n"${title('7.404: unknown')}", () => {})`,
      `test('${title('2.5: off')}', { skip: true }, () => {})`,
      `test.skip('${title('2.6: off')}', () => {})`,
      `describe('${title('2.7: a group')}', () => {})`,
      'test(\'about the SPEC 2.8: no tag\', () => {})'
    ].join('\n')
    assert.deepEqual(
      taggedTests('x.test.ts', source).map((found) => found.clauses),
      [['4.6.2'], ['2.4', '3.1'], ['7.404']],
    )
  })
})
