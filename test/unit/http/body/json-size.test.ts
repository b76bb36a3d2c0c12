import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isJsonLarger } from '../../../../src/http/body/json.js'

test('the measured size of a value equals that of its JSON without white space', () => {
  for (const value of [
    null, true, false, 0, -1.5, 1e21, '', 'text', 'é€😀', [], {}, [1], [1, 2], { a: 1 }, { a: 1, ключ: [] },
    [[], {}, [[]], { a: { b: [null, 'x'] } }], Array.from({ length: 100 }, (_, at) => ({ at, text: 'x'.repeat(at) })),
  ]) {
    const size = Buffer.byteLength(JSON.stringify(value))
    assert.equal(isJsonLarger(value, size), false, JSON.stringify(value))
    assert.equal(isJsonLarger(value, size - 1), true, JSON.stringify(value))
  }
})

test('a value is measured only up to the limit, and may contain values that JSON cannot represent', () => {
  let reads = 0
  const list = Array.from({ length: 1000 }, () =>
    Object.defineProperty({}, 'a', { enumerable: true, get: () => ++reads }),
  )
  assert.equal(isJsonLarger(list, 100), true)
  assert.ok(reads < 30, String(reads))
  assert.equal(isJsonLarger({ big: 10n, at: new Date(), nothing: undefined }, 1000), false)
})
