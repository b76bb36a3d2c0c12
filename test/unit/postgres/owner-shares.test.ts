import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Query } from '../../../adapters/postgres/connections.js'
import { shareCheck } from '../../../adapters/postgres/expiry.js'

const SHARE = { maxEntries: 160, maxBytes: 160_000 }
/** Shares whose random numbers are spread evenly, and the owners that were checked. */
function shares() {
  const checked: string[] = []
  let calls = 0
  const query: Query = async <Row>(_text: string, [owner]: readonly unknown[] = []) => {
    checked.push(String(owner))
    return [] as Row[]
  }
  const check = shareCheck(query, 'SELECT', () => undefined, () => (
    (++calls * 0.618033988749895) % 1
  ))
  const count = (owner: string, bytes: number): void => { check(owner, bytes, SHARE) }
  return { count, checked }
}

describe('checks of the shares of owners', () => {
  test('come once for each sixteenth of the entries, even if many owners write in turn', () => {
    const { count, checked } = shares()
    for (let round = 0; round < 10; round++) {
      for (let n = 0; n < 12_000; n++) count(`owner ${String(n)}`, 0)
    }
    assert.ok(Math.abs(checked.length - 12_000) < 120, `${String(checked.length)} checks`)
    assert.ok(new Set(checked).size > 6000, `${String(new Set(checked).size)} owners were checked`)
  })

  test('come once for each sixteenth of the bytes', () => {
    const { count, checked } = shares()
    for (let n = 0; n < 1000; n++) count('ann', 2000)
    assert.ok(Math.abs(checked.length - 200) < 5, `${String(checked.length)} checks`)
  })

  test('come with each entry of a sixteenth of the bytes or more', () => {
    const { count, checked } = shares()
    for (const size of [10_000, 200_000]) count('ann', size)
    assert.deepEqual(checked, ['ann', 'ann'])
  })
})
