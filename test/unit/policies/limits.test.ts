import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { compose, type BodySource, type Handler } from '../../../src/http/exchange.js'
import { readJson } from '../../../src/http/body/body.js'
import { json } from '../../../src/http/respond.js'
import { limitBody } from '../../../src/policies/limits.js'
import { limitHeaders } from '../../../src/policies/limits.js'
import { ask, fakeRequest } from '../kit/request.js'

/** A body of pieces, as a binding gives it; `asked` is the largest limit that it was asked with. */
function body(...pieces: string[]): BodySource & { asked: number } {
  const whole = Buffer.concat(pieces.map((text) => Buffer.from(text)))
  const source = {
    asked: 0,
    parsed: undefined,
    bytes: async (limit: number) => {
      source.asked = Math.max(source.asked, limit)
      return whole.byteLength > limit ? undefined : whole
    },
    async *stream() {
      for (const text of pieces) yield Buffer.from(text)
    },
  }
  return source
}
const read =
  (maxBytes: number): Handler =>
    async (request) =>
      json(200, await readJson(request, { maxBodyBytes: maxBytes }))
const count: Handler = async (request) => {
  let size = 0
  for await (const piece of request.body.stream()) size += piece.byteLength
  return json(200, size)
}

test('limits accept their smallest valid value', async () => {
  const nothing = compose(limitBody({ maxBodyBytes: 0 }), count)
  assert.deepEqual(
    [(await ask(nothing, { body: body() })).body, (await ask(nothing, { body: body('x') })).status],
    ['0', 413],
  )
  const one = compose(limitHeaders({ maxHeaders: 1 }), () => json(200, {}))
  assert.deepEqual(
    [(await ask(one, { headers: { a: '' } })).status, (await ask(one, { headers: { a: '', b: '' } })).status],
    [200, 431],
  )
  const byte = compose(limitHeaders({ maxHeaderBytes: 1 }), () => json(200, {}))
  assert.deepEqual(
    [(await ask(byte, { headers: { a: '' } })).status, (await ask(byte, { headers: { a: 'b' } })).status],
    [200, 431],
  )
})

describe('limitBody', () => {
  test('measures a body that the application has parsed if Content-Length does not state its size', async () => {
    const handler = compose(limitBody({ maxBodyBytes: 100 }), () => json(200, {}))
    const answer = async (value: unknown, headers = {}) => handler(fakeRequest({ headers, parsed: { value } }))
    assert.equal((await answer({ text: 'x'.repeat(80) }))?.status, 200)
    for (const headers of [{}, { 'content-length': '50', 'content-encoding': 'gzip' }]) {
      await assert.rejects(answer({ text: 'x'.repeat(100) }, headers), { code: 'body_too_large' })
      await assert.rejects(answer('x'.repeat(101), headers), { code: 'body_too_large' })
    }
    const loop: Record<string, unknown> = {}
    loop['self'] = loop
    await assert.rejects(answer(loop), { code: 'nested_too_deep' })
  })

  const limited = (handler: Handler) => compose(limitBody({ maxBodyBytes: 10 }), handler)

  test('SPEC 8.1: limits by Content-Length before anything is read', async () => {
    for (const [length, status] of [['11', 413], ['10', 200], [undefined, 200]] as const) {
      const source = body('"12345678"')
      const answer = await ask(limited(read(1000)), {
        body: source,
        headers: { 'content-type': 'application/json', ...(length !== undefined && { 'content-length': length }) },
      })
      assert.equal(answer.status, status, String(length))
      // Without a length it is read in pieces, which are counted.
      assert.equal(source.asked, length === '10' ? 10 : 0, 'no more is asked for')
    }
  })

  test('limits the bytes that arrive, in a body read as a whole or in chunks, and names the limit', async () => {
    for (const handler of [read(1000), count]) {
      const answer = await ask(limited(handler), { body: body('"12345', '67890"') })
      assert.deepEqual(
        [answer.status, answer.json],
        [413, { error: 'The body is larger than 10 bytes.', code: 'body_too_large' }],
      )
    }
    assert.equal((await ask(limited(count), { body: body('12345', '67890') })).body, '10', 'exactly')
  })

  test('keeps the limit of the handler if it is lower, and the error names that limit', async () => {
    const answer = await ask(limited(read(5)), { body: body('"123456"') })
    assert.deepEqual([answer.status, answer.json['error']], [413, 'The body is larger than 5 bytes.'])
  })

  test("uses the body that the application's parser has left", async () => {
    const parsed: BodySource = { ...body('x'), parsed: { value: { a: 1 } } }
    assert.equal(
      (await ask(limited(read(1000)), { body: parsed, headers: { 'content-type': 'application/json' } })).body,
      '{"a":1}',
    )
  })
})

describe('limitHeaders', () => {
  const ok: Handler = () => json(200, {})

  test('limits the bytes and the number of headers', async () => {
    const bytes = compose(limitHeaders({ maxHeaderBytes: 12 }), ok)
    assert.equal((await ask(bytes, { headers: { abc: '123', de: '4567' } })).status, 200)
    const over = await ask(bytes, { headers: { abc: '123', de: '45678' } })
    assert.deepEqual([over.status, over.json['code']], [431, 'header_fields_too_large'])
    const fields = compose(limitHeaders({ maxHeaders: 3 }), ok)
    assert.equal((await ask(fields, { headers: { 'a': '', 'set-cookie': ['1', '2'], 'b': undefined } })).status, 200)
    assert.equal((await ask(fields, { headers: { 'a': '', 'set-cookie': ['1', '2'], 'b': '' } })).status, 431)
  })
})

test('invalid options throw at construction', () => {
  for (const [make, what] of [
    [() => limitBody({ maxBodyBytes: -1 }), /maxBodyBytes/],
    [() => limitBody({} as never), /maxBodyBytes/],
    [() => limitBody({ maxBodyBytes: 1.5 }), /maxBodyBytes/],
    [() => limitHeaders({}), /set maxHeaderBytes, maxHeaders/],
    [() => limitHeaders({ maxHeaderBytes: 0 }), /whole number/],
    [() => limitHeaders({ maxHeaders: 1.5 }), /whole number/],
  ] as const)
    assert.throws(make, (error) => error instanceof TypeError && what.test(error.message), String(what))
})
