import assert from 'node:assert/strict'
import fc from 'fast-check'
import { parseDictionary as parseByPackage } from 'structured-headers'
import {
  parseDictionary, digestHeader, parseDigests, parseWantedDigests,
} from '../../src/http/headers/digests.js'
import { linear } from './frame/linear.js'
import { mutated } from './frame/mutate.js'

const DIGEST = 'sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:'
const EXAMPLES = [
  DIGEST,
  `md5=:AAAA:, ${DIGEST}`,
  `${DIGEST};p="x"`,
  'sha-256=10, sha-512=3, unixsum=0',
  'a=(1 "b" c;d=?0), b, c=17',
  'x=1.5;y=-2, z=A/b:c',
  '',
]
const PIECES = ['sha-256', 'sha-512', '=', '=:', ':', ', ', ';', '"', '\\', '(', ')', ' ', '?1', '10', 'a', '*']

const text = mutated(EXAMPLES, PIECES)
/** Without display strings, whose UTF-8 only the package checks, and dates, of which it refuses negative ones. */
const comparable = text.filter((each) => !each.includes('%"') && !each.includes('@'))

export const rules = {
  'reads a dictionary as another parser does': fc.property(comparable, (field) => {
    let expected: string[] | undefined
    try {
      expected = [...parseByPackage(field).keys()]
    } catch {
      expected = undefined
    }
    const found = parseDictionary(field)
    assert.deepEqual(found && [...found.keys()], expected)
  }),
  'writes what it has read': fc.property(text, (field) => {
    const digests = parseDigests(field)
    if (digests !== undefined) assert.deepEqual(parseDigests(digestHeader(digests)), digests)
  }),
  'never throws for a wish': fc.property(text, (field) => {
    const { wanted, refused } = parseWantedDigests(field)
    assert.ok(wanted.length + refused.length <= 2)
  }),
  'takes linear time': linear([...PIECES, '\u0001', '( 1 ', ';a=1', '"\\"'], (field) => parseDictionary(field)),
}
