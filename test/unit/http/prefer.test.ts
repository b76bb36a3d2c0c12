import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { parsePrefer } from '../../../src/http/headers/prefer.js'
import { ASSIGNED, OWS, PARAMETERS, TOKEN, members, parameters, unquote } from './list-grammar.js'
import { countSteps } from '../kit/steps.js'

/** What the header means by the grammar of RFC 7240 alone. */
function reference(text: string): Record<string, { value: string; params: Record<string, string> }> {
  const item = new RegExp(`^(${TOKEN})${ASSIGNED}(${PARAMETERS})${OWS}$`)
  const all = new Map<string, { value: string; params: Record<string, string> }>()
  for (const member of members(text)) {
    const match = item.exec(member)
    const name = match?.[1]?.toLowerCase()
    if (name !== undefined && !all.has(name))
      all.set(name, { value: unquote(match?.[2]), params: parameters(match?.[3] ?? '') })
  }
  return Object.fromEntries(all)
}

function plain(header: string | string[]): ReturnType<typeof reference> {
  return Object.fromEntries(
    [...parsePrefer(header).all].map(([name, { value, params }]) => [
      name,
      { value, params: Object.fromEntries(params) },
    ]),
  )
}

describe('parsePrefer', () => {
  test('reads respond-async in every notation', () => {
    for (const header of [
      'respond-async',
      'Respond-Async',
      'RESPOND-ASYNC',
      ' respond-async ',
      'respond-async; x=1',
      'respond-async=""',
      'respond-async=',
      'wait=10, respond-async',
      'a, ,,\trespond-async',
      ['return=minimal', 'respond-async'],
      'foo="a, b\\", c", respond-async',
    ])
      assert.equal(parsePrefer(header).respondAsync, true, String(header))
  })

  test('does not mistake other texts for respond-async', () => {
    for (const header of [
      undefined,
      '',
      ',',
      'respond-asynch',
      'x="respond-async"',
      'x; respond-async',
      'respond-async=false',
      'respond-async x',
      'respond-async;"',
      '"respond-async"',
      'x="open, respond-async',
      'respond-async=1, respond-async',
      [],
    ])
      assert.equal(parsePrefer(header).respondAsync, false, String(header))
  })

  test('reads wait as digits, up to 2147483647, and the first one counts even if it is invalid', () => {
    const cases: [string, number | undefined][] = [
      ['wait=10', 10],
      ['WAIT = "10"', 10],
      ['wait=0', 0],
      ['wait=007', 7],
      ['wait=99999999999999999999', 2147483647],
      ['wait', undefined],
      ['wait=', undefined],
      ['wait=-1', undefined],
      ['wait=1.5', undefined],
      ['wait=1e3', undefined],
      ['wait=" 1"', undefined],
      ['wait=0x10', undefined],
      ['wait=abc, wait=5', undefined],
      ['wait=5, wait=6', 5],
    ]
    for (const [header, expected] of cases) assert.equal(parsePrefer(header).wait, expected, header)
  })

  test('reads return and handling by value, which is case-sensitive', () => {
    const { return: returned, handling } = parsePrefer('return=minimal; foo="some parameter", handling=lenient')
    assert.deepEqual([returned, handling], ['minimal', 'lenient'])
    assert.equal(parsePrefer('return=representation, return=minimal').return, 'representation')
    assert.equal(parsePrefer('return=Minimal').return, undefined)
    assert.equal(parsePrefer('handling=strict').handling, 'strict')
    assert.equal(parsePrefer('handling=whatever').handling, undefined)
  })

  test('unquotes values and parameters, and treats an empty value as no value', () => {
    assert.deepEqual(plain('Foo="a \\"b\\" \\\\ c"; Bar=1; BAR=2; baz; qux=""'), {
      foo: { value: 'a "b" \\ c', params: { bar: '1', baz: '', qux: '' } },
    })
  })

  test('parses a missing header once, and caches a repeated one', () => {
    assert.equal(parsePrefer(undefined), parsePrefer(undefined))
    assert.equal(parsePrefer('respond-async, wait=3'), parsePrefer('respond-async, wait=3'))
    assert.throws(() => Object.assign(parsePrefer('respond-async'), { respondAsync: false }), TypeError)
  })

  test('reads any text according to the grammar', () => {
    const text = fc.string({
      unit: fc.constantFrom('a', 'B', '=', '"', ';', ',', ' ', '\t', '\\', '\u0001', 'é', '(', 'wait', '7'),
      maxLength: 24,
    })
    fc.assert(fc.property(text, (header) => { assert.deepEqual(plain(header), reference(header)) }), { numRuns: 3000 })
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (header) => {
        assert.deepEqual(plain(header), reference(header))
      }),
    )
  })

  test('reads several lines as one list', () => {
    const line = fc.constantFrom('a=1', 'b="x, y"; c', '', 'wait=3', 'a=2', ';')
    fc.assert(fc.property(fc.array(line), (lines) => { assert.deepEqual(plain(lines), plain(lines.join(','))) }))
  })

  test('takes linear time for texts of 16 KiB from an attacker', () => {
    for (const unit of [
      ',', 'a,', '"', '\\', '"\\', 'a="', 'a;', ';', ' ', 'a=";b,', 'a ', '=', 'a="b";c="d\\"",',
      '"\u0001', 'wait=1,', '""', '\t,;"',
    ]) {
      const text = (length: number): string => unit.repeat(Math.ceil(length / unit.length)).slice(0, length)
      const steps = countSteps(() => parsePrefer(text(16_384)))
      assert.ok(steps < 16_384 * 8, `${JSON.stringify(unit)}: ${steps} steps`)
    }
  })
})
