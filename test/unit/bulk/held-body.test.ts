import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { HeldBody, withParsed } from '../../../src/bulk/held-body.js'
import { heapShare } from '../../../src/runtime/heap-share.js'

const OVERLOADED = { code: 'overloaded', status: 503 }
/** Half of all that bodies may take, and a bit. */
const HALF = heapShare(2, 512) / 2 + 1000

async function* pieces(size: number, wait?: Promise<unknown>): AsyncGenerator<Uint8Array> {
  const piece = new Uint8Array(1_048_576)
  for (let left = size; left > 0; left -= piece.byteLength) yield piece.subarray(0, left)
  await wait
}

test('bytes are read back from any offset, however they arrived', async () => {
  const all = Buffer.from(Array.from({ length: 200_000 }, (_, at) => at % 251))
  const body = new HeldBody()
  async function* source(): AsyncGenerator<Uint8Array> {
    for (let at = 0, step = 1; at < all.length; at += step, step = (step * 7) % 100_003) yield all.subarray(at, at + step)
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
  test('the one that was silent for longest is dropped, and the other is read', async () => {
    const silent = new HeldBody()
    const reading = silent.read(pieces(HALF, new Promise(() => undefined)), Infinity)
    while (silent.size < HALF - 1) await new Promise(setImmediate)
    const other = new HeldBody()
    const [first, second] = await Promise.allSettled([reading, other.read(pieces(HALF), Infinity)])
    assert.equal(first.status === 'rejected' && (first.reason as { code?: string }).code, 'overloaded')
    assert.deepEqual([second.status, silent.size], ['fulfilled', 0])
    other.release()
  })

  test('bodies that have arrived stay, and a new one is dropped', async () => {
    const there = new HeldBody()
    assert.equal(await there.read(pieces(HALF), Infinity), true)
    const other = new HeldBody()
    await assert.rejects(other.read(pieces(HALF), Infinity), OVERLOADED)
    there.release()
    assert.equal(await other.read(pieces(HALF), Infinity), true)
    other.release()
  })

  test('a body that is dropped in the moment in which a piece arrives is never read without its start', async () => {
    const there = new HeldBody()
    let send = (_: unknown): void => undefined
    const wait = new Promise((resolve) => { send = resolve })
    const reading = there.read(pieces(HALF, wait), Infinity)
    while (there.size < HALF - 1) await new Promise(setImmediate)
    const other = new HeldBody()
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

test('parsed JSON is limited, but one request alone always runs', async () => {
  let end = (): void => undefined
  const running = withParsed(2 ** 40, () => new Promise<void>((resolve) => { end = resolve }))
  await assert.rejects(withParsed(1, () => Promise.resolve()), OVERLOADED)
  end()
  await running
  assert.equal(await withParsed(1, () => Promise.resolve('done')), 'done')
})
