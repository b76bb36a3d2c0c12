import assert from 'node:assert/strict'
import fc from 'fast-check'
import { parsePrefer } from '../../src/http/headers/prefer.js'
import { linear } from './frame/linear.js'
import { items } from './frame/list-reference.js'
import { mutated } from './frame/mutate.js'

const EXAMPLES = [
  'respond-async', 'respond-async, wait=10', 'return=minimal', 'return=representation; foo="bar"',
  'handling=lenient, wait=100, respond-async', 'Foo="a \\"b\\" \\\\ c"; Bar=1; BAR=2; baz; qux=""',
  'wait="5"', 'priority=5, , x', '',
]
const PIECES = ['wait', 'wait=', 'respond-async', 'return=', 'minimal', '=""', '="', '\\"', '; ', ', ', 'a', '7']

/** What the header means by the grammar of RFC 7240 alone. */
function reference(text: string): Record<string, unknown> {
  const all = new Map<string, unknown>()
  for (const { name, value, params } of items(text))
    if (!all.has(name.toLowerCase())) all.set(name.toLowerCase(), { value, params })
  return Object.fromEntries(all)
}

const shown = (header: string | string[]): Record<string, unknown> =>
  Object.fromEntries(
    [...parsePrefer(header).all].map(([name, { value, params }]) => [
      name,
      { value, params: Object.fromEntries(params) },
    ]),
  )

export const rules = {
  'says what the grammar says': fc.property(mutated(EXAMPLES, PIECES), (text) => {
    assert.deepEqual(shown(text), reference(text))
  }),
  'takes several lines for one list': fc.property(fc.array(mutated(EXAMPLES, PIECES), { maxLength: 3 }), (lines) => {
    assert.deepEqual(shown(lines), shown(lines.join(', ')))
  }),
  'gives what may be used': fc.property(mutated(EXAMPLES, PIECES), (text) => {
    const { wait, return: returned, handling, respondAsync } = parsePrefer(text)
    assert.ok(wait === undefined || (Number.isSafeInteger(wait) && wait >= 0 && wait < 2 ** 31))
    assert.ok(
      [undefined, 'minimal', 'representation'].includes(returned) &&
        [undefined, 'strict', 'lenient'].includes(handling),
    )
    assert.equal(typeof respondAsync, 'boolean')
  }),
  'takes linear time': linear([...PIECES, '"', '\\', ',', ';', ' ', '=', '\u0001', 'a="b";c="d\\"",'], (text) =>
    parsePrefer(text),
  ),
}
