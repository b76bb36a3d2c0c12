import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { describe as told, type Operation } from '../../../src/http/exchange.js'
import { json } from '../../../src/http/respond.js'
import { byMediaTypeParameter, byPath, byQuery, byVendorMediaType, versionNeutral, versions, type Selector } from '../../../src/versioning/index.js'

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

  test('each thing is said once', () => {
    assert.equal(responsesWith(byQuery())['400']?.description.match(/version_unsupported/g)?.length, 1)
    assert.ok(!('401' in responsesWith(byQuery())))
  })

  test('a version in the query is a parameter', () => {
    const handler = versions({ 1: told(() => json(200, {}), [operation]) }, { select: [byQuery({ parameter: 'v' })] })
    const parameters = handler.operations?.[0]?.openapi['parameters'] as { name: string, in: string }[]
    assert.deepEqual(parameters.map((one) => [one.in, one.name]), [['query', 'v']])
  })

  test('the versions that go are deprecated, and no others', () => {
    const own = told(() => json(200, {}), [operation])
    const handler = versions({ 1: { handler: own, deprecated: '2025-01-01' }, 2: own }, { select: [byPath()] })
    const said = handler.operations?.map(({ openapi }) => {
      const good = (openapi['responses'] as Record<string, { headers?: object }>)['200']
      return [openapi['deprecated'], Object.keys(good?.headers ?? {}).includes('Deprecation')]
    })
    assert.deepEqual(said, [[true, true], [undefined, false]])
  })

  test('what is not described stays so, also where it is the same in every version', () => {
    const [bare, own] = [() => json(200, {}), told(() => json(200, {}), [operation])]
    assert.equal(versions({ 1: bare }, { select: [byPath()] }).operations, undefined)
    assert.equal(versionNeutral(bare, { select: [byPath()] }).operations, undefined)
    assert.deepEqual(versionNeutral(own, { select: [byPath()] }).operations, [operation])
  })
})
