import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { CountedBytes } from '../../../../src/http/body/counted-body.js'
import type { HttpRequest } from '../../../../src/http/exchange.js'
import { heapShare } from '../../../../src/runtime/shared-limit.js'
import { fakeRequest } from '../../kit/request.js'

const OVERLOADED = { code: 'overloaded', status: 503 }
const TOO_MANY = { code: 'too_many_requests', status: 429, headers: { 'retry-after': '1' } }
/** Half of all that bodies may take, and a bit. */
const HALF = heapShare(2, 512) / 2 + 1000

const by = (subject: string): HttpRequest<unknown> => ({ ...fakeRequest(), context: { principal: { subject } } })

async function* pieces(size: number, wait?: Promise<unknown>): AsyncGenerator<Uint8Array> {
  const piece = new Uint8Array(1_048_576)
  for (let left = size; left > 0; left -= piece.byteLength) yield piece.subarray(0, left)
  await wait
}

test('stored bytes are read from any offset, for any division into chunks', async () => {
  const all = Buffer.from(Array.from({ length: 200_000 }, (_, at) => at % 251))
  const body = new CountedBytes(by('one'))
  async function* source(): AsyncGenerator<Uint8Array> {
    for (let at = 0, step = 1; at < all.length; at += step, step = (step * 7) % 100_003)
      yield all.subarray(at, at + step)
  }
  assert.equal(await body.read(source(), 1_000_000), true)
  for (const start of [0, 1, 65_535, 65_536, 65_537, 131_072, 199_999, 200_000]) {
    const parts: Uint8Array[] = []
    for await (const part of body.open(start)) parts.push(part)
    assert.ok(Buffer.concat(parts).equals(all.subarray(start)), String(start))
  }
  body.release()
})

describe('if all bodies together are too large', () => {
  test('the body that was idle for longest is dropped, and the other body is read', async () => {
    const silent = new CountedBytes(by('one'))
    const reading = silent.read(pieces(HALF, new Promise(() => undefined)), Infinity)
    while (silent.size < HALF - 1) await new Promise(setImmediate)
    const other = new CountedBytes(by('other'))
    const [first, second] = await Promise.allSettled([reading, other.read(pieces(HALF), Infinity)])
    assert.equal(first.status === 'rejected' && (first.reason as { code?: string }).code, 'overloaded')
    assert.deepEqual([second.status, silent.size], ['fulfilled', 0])
    other.release()
  })

  test('bodies that have arrived completely stay, and a new body is dropped', async () => {
    const there = new CountedBytes(by('one'))
    assert.equal(await there.read(pieces(HALF), Infinity), true)
    const other = new CountedBytes(by('other'))
    await assert.rejects(other.read(pieces(HALF), Infinity), OVERLOADED)
    there.release()
    assert.equal(await other.read(pieces(HALF), Infinity), true)
    other.release()
  })

  test('a body that is dropped while a chunk arrives is never read without its first bytes', async () => {
    const there = new CountedBytes(by('one'))
    let send = (_: unknown): void => undefined
    const wait = new Promise((resolve) => { send = resolve })
    const reading = there.read(pieces(HALF, wait), Infinity)
    while (there.size < HALF - 1) await new Promise(setImmediate)
    const other = new CountedBytes(by('other'))
    const late = other.read((async function* () {
      await wait
      yield* pieces(HALF)
    })(), Infinity)
    send(undefined)
    const [first] = await Promise.allSettled([reading, late])
    // Either it was complete before, or it is refused.
    assert.ok(first.status === 'rejected' ? there.size === 0 : there.size >= HALF - 1)
    there.release()
    other.release()
  })
})

describe('the bodies of one caller', () => {
  test('may take a quarter, above which only bodies of this caller are dropped, with a 429', async () => {
    const silent = new CountedBytes(by('other'))
    const waiting = silent.read(pieces(1000, new Promise(() => undefined)), Infinity)
    waiting.catch(() => undefined)
    const bodies = Array.from({ length: 3 }, () => new CountedBytes(by('one')))
    const [first, second, third] = bodies as [CountedBytes, CountedBytes, CountedBytes]
    assert.equal(await first.read(pieces(HALF / 4), Infinity), true)
    const stalled = second.read(pieces(1000, new Promise(() => undefined)), Infinity)
    const [dropped] = await Promise.allSettled([
      stalled,
      assert.rejects(third.read(pieces(HALF / 2), Infinity), TOO_MANY),
    ])
    assert.equal(dropped.status === 'rejected' && (dropped.reason as { code?: string }).code, TOO_MANY.code)
    assert.equal(silent.size, 1000)
    const other = new CountedBytes(by('other'))
    assert.equal(await other.read(pieces(HALF / 4), Infinity), true)
    for (const body of [...bodies, silent, other]) body.release()
  })
})
