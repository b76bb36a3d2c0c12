import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { DerivedRequest, plainRequest, withContext } from '../../../src/http/request.js'
import type { BodySource, HttpRequest } from '../../../src/http/exchange.js'

const body: BodySource = {
  parsed: undefined,
  bytes: () => Promise.resolve(undefined),
  stream: () => {
    throw new Error('nobody reads it')
  },
}
const plain = () =>
  plainRequest<{ user: string }>({
    method: 'POST',
    path: '/v1/reports',
    mountPath: '',
    params: {},
    query: new URLSearchParams('a=1'),
    search: '?a=1',
    headers: { accept: 'text/plain' },
    body,
    signal: new AbortController().signal,
    context: { user: 'ann' },
    peerAddress: '192.0.2.1',
    raw: 'raw',
  })

describe('a derived request', () => {
  it('keeps earlier changes when its context gets more properties', () => {
    const derived = new DerivedRequest<{ user: string }>(plain(), {
      mountPath: '/v1',
      headers: { accept: '*/*' },
      params: { id: '7' },
    })
    const { mountPath, headers, params, path, search, context } = withContext(derived, { requestId: 'r1' })
    assert.deepEqual(
      { mountPath, headers, params, path, search, context },
      {
        mountPath: '/v1',
        headers: { accept: '*/*' },
        params: { id: '7' },
        path: '/v1/reports',
        search: '?a=1',
        context: { user: 'ann', requestId: 'r1' },
      },
    )
  })

  it('shows all unchanged properties of the original request', () => {
    const members = ({
      method,
      path,
      mountPath,
      params,
      query,
      search,
      headers,
      body: source,
      signal,
      gone,
      context,
      peerAddress,
      raw,
    }: HttpRequest): unknown => ({
      method,
      path,
      mountPath,
      params,
      query,
      search,
      headers,
      body: source,
      signal,
      gone,
      context,
      peerAddress,
      raw,
    })
    const underneath = Object.assign(plain(), {
      mountPath: '/v1',
      params: { id: '7' },
      signal: AbortSignal.abort(),
      gone: true,
    })
    assert.deepEqual(members(new DerivedRequest(underneath, {})), members(underneath))
  })

  it('leaves the original request unchanged', () => {
    const first = withContext(plain(), { a: 1 })
    const second = withContext(first, { a: 2, b: 2 })
    assert.deepEqual([first.context, second.context], [{ user: 'ann', a: 1 }, { user: 'ann', a: 2, b: 2 }])
  })

  it('creates its signal once, however often it is read', () => {
    let made = 0
    const derived = new DerivedRequest<{ user: string }>(plain(), {
      signal: () => {
        made++
        return AbortSignal.abort()
      },
    })
    const later = withContext(derived, { a: 1 })
    assert.equal(later.signal, derived.signal)
    assert.equal(later.gone, true)
    assert.equal(made, 1)
  })

  it('has the query of its own search, and throws for unknown names', () => {
    const changed = plain().with({ path: '/other', search: '?b=2' })
    assert.deepEqual(
      [changed.path, changed.search, changed.query.get('b'), changed.method],
      ['/other', '?b=2', '2', 'POST'],
    )
    assert.equal(changed.with({ method: 'GET' }).query.get('b'), '2')
    for (const request of [plain(), changed]) {
      assert.throws(() => request.with({ header: {} } as object), {
        name: 'TypeError',
        message: /request\.with: there is no option "header"; did you mean "headers"/,
      })
    }
  })

  it('shows the context of the original request, unless it has its own, which may be undefined', () => {
    assert.deepEqual(new DerivedRequest(plain(), {}).context, { user: 'ann' })
    assert.equal(new DerivedRequest<undefined>(plain(), { context: undefined }).context, undefined)
  })
})
