import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { MemoryStore } from '../../../adapters/memory/store.js'
import { compose, type Handler, type HttpRequest } from '../../../src/http/exchange.js'
import { isHttpError } from '../../../src/http/errors.js'
import { json } from '../../../src/http/respond.js'
import { idempotent } from '../../../src/idempotency/policy.js'
import { fakeRequest, type Fake } from '../kit/request.js'
import { deferred, within } from '../../kit/wait.js'

const turn = () => new Promise(setImmediate)

function site(t: TestContext, handler: Handler) {
  const store = new MemoryStore()
  t.after(() => store.close())
  const caller = ({ headers }: HttpRequest) => headers['x-user'] as string | undefined
  const kept = compose(idempotent({ store, caller, maxBodyBytes: 2_000_000 }), handler)
  const send = async ({ headers, ...rest }: Fake = {}) => kept(fakeRequest({
    headers: { 'content-type': 'application/json', 'idempotency-key': '"k"', ...headers }, ...rest,
  }))
  return { store, send }
}

test('waiting retries of one caller hold 2 MiB of bodies, above which its other retries get a 409 at once', async (t) => {
  const gate = deferred()
  const { send } = site(t, async () => {
    await gate.promise
    return json(201, {})
  })
  const body = JSON.stringify('x'.repeat(1_000_000))
  const headers = { 'content-length': String(Buffer.byteLength(body)) }
  const first = send({ headers, body })
  await turn()
  const codes: unknown[] = []
  const retries = Array.from({ length: 20 }, async () => {
    try {
      return (await send({ headers, body }))?.status
    } catch (error) {
      codes.push(isHttpError(error) && error.code)
      return undefined
    }
  })
  while (codes.length < 18) await turn()
  const others = Array.from({ length: 3 }, () => send({ headers: { ...headers, 'x-user': 'other' }, body }))
  for (let n = 0; n < 20; n++) await turn()
  assert.deepEqual(
    codes,
    Array.from({ length: 18 }, () => 'idempotent_request_running'),
  )
  gate.resolve()
  assert.equal((await within(first))?.status, 201)
  const waited = await within(Promise.all(retries))
  assert.equal(waited.filter((status) => status === 201).length, 2)
  assert.deepEqual(
    (await within(Promise.all(others))).map((response) => response?.status),
    [201, 201, 201],
  )
})

test('headers beyond 16 KiB are not kept for retries', async (t) => {
  const { send, store } = site(t, () => json(201, {}, { 'x-large': 'x'.repeat(1_000_000), 'location': '/a' }))
  await send()
  assert.ok(store.usage().bytes < 5000, String(store.usage().bytes))
  const again = await send()
  assert.deepEqual(
    [again?.headers['location'], again?.headers['x-large'], again?.headers['idempotent-replayed']],
    ['/a', undefined, 'true'],
  )
})

test('a body that the application has parsed is measured if Content-Length does not tell its size', async (t) => {
  const { send } = site(t, () => json(201, {}))
  await assert.rejects(send({ parsed: { value: { text: 'x'.repeat(2_000_000) } } }), { code: 'body_too_large' })
  assert.equal((await send({ parsed: { value: { text: 'x'.repeat(1000) } } }))?.status, 201)
})

test('a parsed body that is nested too deeply is rejected, but unparsed bytes are compared as they are', async (t) => {
  const { send } = site(t, () => json(201, {}))
  let deep: unknown = []
  for (let n = 0; n < 100_000; n++) deep = [deep]
  await assert.rejects(send({ parsed: { value: deep } }), { code: 'nested_too_deep' })
  const body = '['.repeat(100_000) + ']'.repeat(100_000)
  assert.equal((await send({ body }))?.headers['idempotent-replayed'], undefined)
  assert.equal((await send({ body }))?.headers['idempotent-replayed'], 'true')
  await assert.rejects(send({ body: `${body} ` }), { code: 'idempotency_key_reused' })
})
