import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Linter } from 'eslint'
import tseslint from 'typescript-eslint'
import { testTitle, titleFault } from '../../scripts/test-title.mjs'

describe('the fault of a test title', () => {
  const faults: [title: string, fault: string][] = [
    ['a queue > that is full gets a 503', 'begin with the subject or the verb, not with that'],
    ['a queue > of one owner gets a 503', 'begin with the subject or the verb, not with of'],
    ['a queue > and a retry get a 503', 'begin with the subject or the verb, not with and'],
    ['it gets a 503', 'begin with the subject or the verb, not with it'],
    ['SPEC 4.6.1, 2.4: also gets a 503', 'begin with the subject or the verb, not with also'],
    ['is rejected', 'name the subject: no describe has it'],
    ['SPEC 7.3: returns a 503', 'name the subject: no describe has it'],
    ['a queue > is full, also after a retry', 'say what is meant by "also"'],
    ['a queue > rejects a retry too', 'say what is meant by "too"'],
    ['a retry > the same holds', 'say what is meant by "the same holds"'],
    ['a retry > gets a 503 as well', 'say what is meant by "as well"'],
    ['a queue > is full; a retry gets a 503', 'say one fact: a semicolon joins two'],
    ['the message of a queue', 'write a sentence with a verb'],
    ['a queue > a retry, an error', 'write a sentence with a verb'],
    ['a queue > …: 503', 'write a sentence with a verb'],
    ['the retry of a request', 'write a sentence with a verb'],
  ]
  for (const [joined, fault] of faults) {
    test(`is found in "${joined}"`, () => { assert.equal(fault, faultOf(joined)) })
  }
})

describe('a title without a fault', () => {
  const titles = [
    'a retry with the key of a failed task gets its error',
    'a queue > is full',
    'a queue > retries a request',
    'a worker reports once > a closed port',
    'SPEC 4.6.1: a request gets a 202',
    'RFC 9110 section 14.4: a range has a unit',
    'a queue > rejects a request with too many items as well as an empty one',
    'a queue > …',
    '… > a closed port',
  ]
  for (const joined of titles) {
    test(`is "${joined}"`, () => { assert.equal(faultOf(joined), undefined) })
  }
})

describe('the lint rule finds a title', () => {
  const codes: Record<string, string> = {
    'a call of test': "test('a queue', () => {})",
    'a call of test.skip': "test.skip('a queue', { concurrency: true }, () => {})",
    'a call of a runner': "runner.it('a queue', () => {})",
    'a subtest': "t.test('a queue', () => {})",
    'a template': 'test(`a queue of $' + '{size}`, () => {})',
    'groups of describe': "describe('a retry', () => { describe('of a task', () => { test('a queue', () => {}) }) })",
    'the cases of a suite': "const cases: Cases<Context> = { 'a queue': async () => {} }",
  }
  for (const [where, code] of Object.entries(codes)) {
    test(`in ${where}`, () => { assert.deepEqual(lint(code), ['write a sentence with a verb']) })
  }

  test('except where it cannot know the sentence', () => {
    const suite = "export function suite() { test('is full', () => {}) }"
    const table = "for (const title of titles) describe(title, () => { test('a queue', () => {}) })"
    const pattern = "/a/.test('a queue')"
    assert.deepEqual([suite, table, pattern].flatMap(lint), [])
  })
})

function faultOf(joined: string): string | undefined {
  const groups = joined.split(' > ')
  return titleFault(groups.slice(0, -1), groups.at(-1) ?? '')
}

function lint(code: string): string[] {
  return new Linter().verify(code, {
    languageOptions: { parser: tseslint.parser },
    plugins: { own: { rules: { 'test-title': testTitle } } },
    rules: { 'own/test-title': 'error' },
  }).map(({ message }) => message)
}
