import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import {
  compose, describe as describes, type Handler, type Operation, type Policy,
} from '../../../src/http/exchange.js'
import { apiKey, bearer, hostUser, tokens } from '../../../src/policies/schemes.js'
import { authenticate } from '../../../src/policies/authenticate.js'
import { authorize } from '../../../src/policies/authenticate.js'
import { limitBody } from '../../../src/policies/limits.js'
import { rateLimit } from '../../../src/policies/rate-limit.js'
import { timeouts } from '../../../src/policies/timeouts.js'
import { memory } from '../../../adapters/memory/index.js'

const verify = tokens({ 's3cret': { subject: 'ann' } })
const inside = (responses: object): Handler =>
  describes(() => undefined, [{ method: 'GET', path: '/users', openapi: { responses } } satisfies Operation])
/** How the one operation behind a policy is described. */
function described(policy: Policy, responses: object = { 200: { description: 'All of them' } }): Operation {
  return compose(policy, inside(responses)).operations?.[0] as Operation
}
const responsesOf = ({ openapi }: Operation) => openapi['responses'] as Record<string, { readonly headers?: object }>

describe('the description of policies', () => {
  test('has the 401 of authenticate, and a security requirement for each scheme', () => {
    const operation = described(
      authenticate({ schemes: [bearer({ verify }), apiKey({ header: 'x-api-key', verify })] }),
    )
    assert.deepEqual(Object.keys(responsesOf(operation)), ['200', '401'])
    assert.deepEqual(operation.openapi['security'], [{ bearer: [] }, { apiKey: [] }])
    assert.deepEqual(operation.securitySchemes, {
      bearer: { type: 'http', scheme: 'bearer' },
      apiKey: { type: 'apiKey', in: 'header', name: 'x-api-key' },
    })
  })

  test('has no requirement for optional authentication, unless the handler responds with 401 itself', () => {
    const policy = authenticate({ schemes: [bearer({ verify })], optional: true })
    const open = described(policy)
    assert.deepEqual(
      [Object.keys(responsesOf(open)), open.openapi['security'], open.securitySchemes],
      [['200'], [], undefined],
    )
    const closed = described(policy, { 401: { description: 'Who are you?' } })
    assert.deepEqual(
      [closed.openapi['security'], Object.keys(closed.securitySchemes ?? {})],
      [[{ bearer: [] }], ['bearer']],
    )
  })

  test('has no security scheme for hostUser', () => {
    const operation = described(authenticate({ schemes: [hostUser(() => undefined)] }))
    assert.ok('401' in responsesOf(operation))
    assert.deepEqual([operation.openapi['security'], operation.securitySchemes], [undefined, undefined])
  })

  test('has the errors of other policies, and their headers on every response', () => {
    assert.deepEqual(Object.keys(responsesOf(described(authorize({ allow: () => true, reason: 'no' })))), [
      '200', '401', '403',
    ])
    assert.deepEqual(Object.keys(responsesOf(described(limitBody({ maxBodyBytes: 1 })))), ['200', '413'])
    assert.deepEqual(Object.keys(responsesOf(described(timeouts({ readMs: 1 })))), ['200', '408'])
    assert.deepEqual(Object.keys(responsesOf(described(timeouts({ runMs: 1 })))), ['200', '408', '503'])
    const responses = responsesOf(
      described(
        rateLimit({
          store: memory().store,
          onStoreError: 'allow',
          policies: [{ name: 'a', limit: 1, windowSeconds: 1 }],
        }),
      ),
    )
    for (const status of ['200', '429']) {
      for (const name of ['RateLimit', 'RateLimit-Policy'])
        assert.ok(name in (responses[status]?.headers ?? {}), `${status} ${name}`)
    }
  })
})
