import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { compose, type Handler, type Policy } from '../../../src/http/exchange.js'

const handler: Handler = () => undefined
const plain: Policy = (request, next) => next(request)
const named = (name: string): Policy =>
  Object.assign<Policy, object>((request, next) => next(request), { place: { name } })

describe('compose', () => {
  test('lists the places of its policies, outermost first, including those of composed handlers', () => {
    const places = (composed: Handler): unknown => composed.places?.map(({ name }) => name)
    assert.deepEqual(places(compose(named('one'), plain, named('two'), handler)), ['one', 'two'])
    assert.deepEqual(places(compose(named('zero'), compose(plain, named('one'), handler))), ['zero', 'one'])
  })

  test('lists no places and no operations if there are none', () => {
    assert.deepEqual(Object.keys(compose(plain, plain, handler)), [])
  })

  test('returns a single handler unchanged', () => {
    assert.equal(compose(handler), handler)
  })
})
