import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { describe as told, type Operation } from '../../../src/http/exchange.js'
import { json } from '../../../src/http/respond.js'
import { byMediaTypeParameter, byPath, byQuery, byVendorMediaType, versions, type Selector } from '../../../src/versioning/index.js'

const operation: Operation = {
  method: 'GET',
  openapi: {
    operationId: 'a',
    responses: {
      200: { description: 'good', content: { 'application/json': { schema: { type: 'object' } } } },
      204: { description: 'nothing' },
      400: { description: 'bad', content: { 'application/json': { schema: { type: 'string' } } } },
    },
  },
}

function responsesWith(...select: Selector[]): Record<string, { content?: Record<string, unknown>; description: string }> {
  const handler = versions({ 1: told(() => json(200, {}), [operation]) }, { select })
  return handler.operations?.[0]?.openapi['responses'] as ReturnType<typeof responsesWith>
}

describe('what a version says of itself', () => {
  test('a version that is not served is told by the status of each way: in the path, in Accept, and in the query among the other 400s', () => {
    assert.deepEqual(Object.keys(responsesWith(byQuery())), ['200', '204', '400'])
    assert.match(responsesWith(byQuery())['400']?.description ?? '', /version_unsupported/)
    assert.deepEqual(Object.keys(responsesWith(byPath())), ['200', '204', '400', '404'])
    assert.deepEqual(Object.keys(responsesWith(byVendorMediaType({ vendor: 'acme' }))), ['200', '204', '400', '406'])
  })

  test('good answers in JSON have the type of the vendor too, errors and what is empty have not', () => {
    const cases: [Selector, string][] = [
      [byVendorMediaType({ vendor: 'acme' }), 'application/vnd.acme.v1+json'], [byMediaTypeParameter({ vendor: 'acme' }), 'application/vnd.acme+json;version=1'],
    ]
    for (const [selector, type] of cases) {
      const responses = responsesWith(selector)
      assert.deepEqual(responses['200']?.content?.[type], { schema: { type: 'object' } })
      assert.equal(responses['204']?.content, undefined)
      assert.ok(!Object.keys(responses['400']?.content ?? {}).includes(type))
    }
  })
})
