// Digest fields (RFC 9530) and the dictionaries that they are (RFC 9651).
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { parseDictionary as parseByPackage, serializeDictionary } from 'structured-headers'
import {
  ContentDigest, parseDictionary, digestHeader, isDigest, parseDigests, parseWantedDigests,
} from '../../../src/http/headers/digests.js'
import { isLinear } from '../kit/growth.js'

const digestOf = (text: string, algorithm: 'sha256' | 'sha512' = 'sha256'): string => (
  createHash(algorithm).update(text).digest('base64')
)

/** Returns the keys that the package `structured-headers` reads, `undefined` if it refuses the text. */
function keysByPackage(text: string): string[] | undefined {
  try {
    return [...parseByPackage(text).keys()]
  } catch {
    return undefined
  }
}

const piece = fc.constantFrom(
  'a',
  'sha-256',
  'sha-512',
  '*',
  '=',
  '=',
  ',',
  ', ',
  ' ',
  '\t',
  ';',
  ';p',
  '(',
  ')',
  '"',
  '\\',
  '"a,b"',
  '"\\""',
  ':',
  ':YWI=:',
  ':YQ==:',
  ':YQ:',
  ':YQ=:',
  ':Y:',
  '?1',
  '?0',
  '?',
  '1',
  '-12',
  '1.5',
  '@17',
  '@',
  'A/b:c',
  '10',
  '.',
  '\u0001',
  'é',
  '_x',
  '(1 "b")',
  '(a;q=1 b)',
)

describe('RFC 9651: a dictionary', () => {
  test('is read as the package structured-headers reads it, valid or malformed', () => {
    let good = 0
    fc.assert(fc.property(fc.array(piece, { maxLength: 14 }), (pieces) => {
      const text = pieces.join('')
      const expected = keysByPackage(text)
      const found = parseDictionary(text)
      assert.deepEqual(found && [...found.keys()], expected, JSON.stringify(text))
      if (expected !== undefined && expected.length > 0) good++
    }), { numRuns: 20_000 })
    assert.ok(good > 100, `${good}`)
  })

  test('is read back as the package has written it, whatever its values are', () => {
    const key = fc.stringMatching(/^[a-z*][a-z0-9_.*-]{0,6}$/)
    const bare = fc.oneof(
      fc.integer(), fc.boolean(), fc.stringMatching(/^[ -~]{0,9}$/),
      fc.uint8Array({ maxLength: 9 }).map((bytes) => bytes.slice().buffer),
    )
    const parameters = fc.dictionary(key, bare, { maxKeys: 2 }).map((all) => new Map(Object.entries(all)))
    const item = fc.tuple(bare, parameters)
    const inner = fc.tuple(fc.array(item, { maxLength: 3 }), parameters)
    fc.assert(
      fc.property(
        fc.uniqueArray(fc.tuple(key, fc.oneof(item, inner)), { maxLength: 5, selector: ([name]) => name }),
        (members) => {
          const text = serializeDictionary(new Map(members) as Parameters<typeof serializeDictionary>[0])
          assert.deepEqual(
            [...(parseDictionary(text)?.keys() ?? ['malformed'])],
            members.map(([name]) => name),
            text,
          )
        },
      ),
      { numRuns: 2000 },
    )
  })

  test('has its values as text, without parameters, and the last value of a repeated key counts', () => {
    assert.deepEqual(
      [...(parseDictionary(' a=1;x="y", b;q, c=(1 2);z , a=:YQ==:;p ') ?? [])],
      [
        ['a', ':YQ==:'],
        ['b', '?1'],
        ['c', '(1 2)'],
      ],
    )
    assert.deepEqual([...parseDictionary('') ?? ['malformed']], [])
    for (const text of ['a,', ',a', 'a b', 'A=1', 'a=', 'a==', 'a="x', 'a=:é:', 'a;', 'a= 1', 'a=1 ;p']) {
      assert.equal(parseDictionary(text), undefined, text)
    }
  })

  test('takes linear time for any text', () => {
    const hostile: ((n: number) => string)[] = [
      (n) => `a=(${'1 '.repeat(n)}`,
      (n) => `a=(${' '.repeat(n)}`,
      (n) => `a=("x"${' '.repeat(n)}é`,
      (n) => `a${';p'.repeat(n)}=`,
      (n) => `a;${' '.repeat(n)}`,
      (n) => `a="${'\\"'.repeat(n)}`,
      (n) => `a=:${'A'.repeat(n)}`,
      (n) => `a=${'1'.repeat(n)}`,
      (n) => 'a,'.repeat(n),
      (n) => `${' '.repeat(n)},`,
      (n) => `a=%"${'%aa'.repeat(n)}`,
      (n) => `a=1${' '.repeat(n)}b`,
      (n) => `a=(1;${' '.repeat(n)}`,
    ]
    for (const field of hostile) {
      assert.equal(parseDictionary(field(100_000)), undefined, field(5))
      assert.ok(isLinear((n) => {
        const text = field(n)
        return () => { parseDictionary(text) }
      }), field(5))
    }
  })
})

describe('RFC 9530: digest fields', () => {
  const one = digestOf('one')
  const long = digestOf('one', 'sha512')

  test('are written and read back', () => {
    const digests = { 'sha-256': one, 'sha-512': long }
    assert.equal(digestHeader(digests), `sha-256=:${one}:, sha-512=:${long}:`)
    assert.deepEqual(parseDigests(digestHeader(digests)), digests)
    assert.deepEqual(parseDigests([`sha-256=:${one}:`, `sha-512=:${long}:`]), digests)
  })

  test('ignore other algorithms, and reject malformed values', () => {
    for (const field of ['md5=:YQ==:', 'unixsum=1, sha=:eA:', 'x=(1 2), id-sha-256="a"', ''])
      assert.deepEqual(parseDigests(field), {}, field)
    for (const field of [
      'sha-256',
      `sha-256="${one}"`,
      `sha-256=${one}`,
      'sha-256=:YQ==:',
      'sha-256=::',
      'md5=:x:',
      'md5=:YQ=:',
      `sha-512=:${one}:`,
      `sha-256=:${one}`,
      `sha-256=:${one}:,`,
      'md5=:YQ==',
      `sha-256=(:${one}:)`,
    ])
      assert.equal(parseDigests(field), undefined, field)
    assert.ok(isDigest('sha-256', one) && !isDigest('sha-512', one) && !isDigest('sha-256', undefined))
  })

  test('throw only 400 invalid_header, and never accept wrong bytes', () => {
    fc.assert(
      fc.property(
        fc.array(fc.oneof(piece, fc.constantFrom(`sha-256=:${one}:`, `sha-512=:${long}:`)), { maxLength: 8 }),
        (pieces) => {
          const field = pieces.join('')
          try {
            const check = ContentDigest.of({ 'content-digest': field })
            if (check === undefined) return
            assert.throws(() => check.check(Buffer.from('two')), { code: 'digest_mismatch' })
          } catch (error) {
            assert.equal((error as { code?: string }).code, 'invalid_header', field)
          }
        },
      ),
      { numRuns: 3000 },
    )
  })
})

describe('RFC 9530 section 4: Want-Repr-Digest', () => {
  test('is a list of preferences from 1 to 10, where 0 rejects and other values are ignored', () => {
    for (const [field, wanted, refused] of [
      [undefined, [], []],
      ['', [], []],
      ['sha-256=1', ['sha-256'], []],
      ['sha-256=1, sha-512=10', ['sha-512', 'sha-256'], []],
      ['sha-512=3, sha-256=3', ['sha-256', 'sha-512'], []],
      ['sha-512=3, sha-256=0', ['sha-512'], ['sha-256']],
      ['md5=10, sha-256=2;x', ['sha-256'], []],
      ['sha-256=11, sha-512=-1', [], []],
      ['sha-256=1.5, sha-512', [], []],
      ['sha-256="10"', [], []],
      ['sha-256=5, sha-256=0', [], ['sha-256']],
      ['sha-256=5,', [], []],
      ['sha-256=5, =', [], []],
    ] as const) assert.deepEqual(parseWantedDigests(field), { wanted, refused }, field)
  })
})
