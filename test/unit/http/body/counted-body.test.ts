import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readJson } from '../../../../src/http/body/body.js'
import { CountedBody, countingBody } from '../../../../src/http/body/counted-body.js'
import type { HttpRequest } from '../../../../src/http/exchange.js'
import { heapShare } from '../../../../src/runtime/shared-limit.js'
import { fakeRequest } from '../../kit/request.js'

const MIB = 1_048_576
const JSON_TYPE = { 'content-type': 'application/json' }
/** JSON whose estimate is more than the part of one caller. */
const LARGE = Math.ceil(heapShare(8 / 3, Infinity) / 4 / 24) + 1
const LIMITS = { maxBodyBytes: 2 ** 40 }

function request(subject: string, body: string | Uint8Array, headers = {}): HttpRequest<unknown> {
  return fakeRequest({ body, headers: { ...JSON_TYPE, ...headers } }).with({ context: { principal: { subject } } })
}

const textOf = (bytes: number): string => `"${'x'.repeat(bytes - 2)}"`

test('a small body is not counted if its length is known or the application has parsed it', async () => {
  const small = request('one', '{}', { 'content-length': '2' })
  assert.equal(await countingBody(async (own, counted) => own === small && counted === undefined)(small), true)
  const parsed = fakeRequest({ parsed: { value: {} } })
  assert.equal(await countingBody(async (own, counted) => own === parsed && counted === undefined)(parsed), true)
})

test('a caller waits while its bytes of parsed JSON are in use, and other callers do not wait', async () => {
  const first = new CountedBody(request('greedy', textOf(MIB)))
  await first.waitToParse(LARGE, request('greedy', ''))
  let isDone = false
  const waiting = Promise.resolve(readJson(request('greedy', textOf(MIB)), LIMITS)).finally(() => { isDone = true })
  assert.equal(await readJson(request('other', textOf(MIB)), LIMITS), 'x'.repeat(MIB - 2))
  assert.equal(isDone, false)
  assert.equal(await readJson(request('greedy', textOf(60_000)), LIMITS), 'x'.repeat(59_998))
  first.release()
  assert.equal(await waiting, 'x'.repeat(MIB - 2))
})

test('the waiting bytes are limited for each caller', async () => {
  const first = new CountedBody(request('greedy', ''))
  await first.waitToParse(LARGE, request('greedy', ''))
  const bodies = Array.from({ length: Math.ceil(heapShare(2, 512) / 4 / MIB) + 1 }, () =>
    Promise.resolve(readJson(request('greedy', textOf(MIB)), LIMITS)).then(
      () => 'parsed',
      ({ code }: { code: string }) => code,
    ),
  )
  assert.equal(await Promise.race(bodies), 'too_many_requests')
  assert.equal(await readJson(request('other', textOf(MIB)), LIMITS), 'x'.repeat(MIB - 2))
  first.release()
  assert.ok((await Promise.all(bodies)).includes('parsed'))
})

test('a waiting request gives up if its client disconnects', async () => {
  const first = new CountedBody(request('greedy', ''))
  await first.waitToParse(LARGE, request('greedy', ''))
  const client = new AbortController()
  const second = request('greedy', textOf(MIB)).with({ signal: () => client.signal })
  const reading = Promise.resolve(readJson(second, LIMITS))
  setImmediate(() => { client.abort(new Error('gone')) })
  await assert.rejects(reading, /gone/)
  first.release()
})

test('a counted body can be read again, and counts once', async () => {
  const quarter = heapShare(2, 512) / 4
  // Two copies of this body exceed the part of one caller.
  const body = Buffer.alloc(Math.ceil(quarter * 0.6), ' ')
  body.write('[1]')
  await countingBody((outer: HttpRequest<unknown>) => countingBody(async (inner: HttpRequest<unknown>, counted) => {
    assert.equal((await inner.body.bytes(body.byteLength))?.byteLength, body.byteLength)
    assert.equal(counted, outer.body)
    assert.deepEqual(await readJson(inner, LIMITS), [1])
    assert.equal(await inner.body.bytes(body.byteLength - 1), undefined)
    let size = 0
    for await (const piece of inner.body.stream()) size += piece.byteLength
    assert.equal(size, body.byteLength)
  })(outer))(request('one', body))
})
