import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { createConfig, lintFromString } from '@redocly/openapi-core'
import { compose, describe as told, type Handler, type Operation } from '../../../src/http/exchange.js'
import { json } from '../../../src/http/respond.js'
import { dereference } from '../../http/kit/dereference.js'
import { openapi } from '../../../src/openapi/document.js'
import { router } from '../../../src/resources/router.js'
import {
  byHeader, byMediaTypeParameter, byPath, byQuery, byVendorMediaType, type Selector,
} from '../../../src/versions/selectors.js'
import { deprecated } from '../../../src/versions/deprecation.js'
import { versionNeutral } from '../../../src/versions/versions.js'
import { versions } from '../../../src/versions/versions.js'

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

function responsesWith(
  ...select: Selector[]
): Record<string, { content?: Record<string, unknown>; description: string }> {
  const handler = versions({ 1: told(() => json(200, {}), [operation]) }, { select })
  return handler.operations?.[0]?.openapi['responses'] as ReturnType<typeof responsesWith>
}

describe('the description of versions', () => {
  test('has the status of each selector for a version that is not served', () => {
    assert.deepEqual(Object.keys(responsesWith(byQuery())), ['200', '204', '400', 'default'])
    assert.match(responsesWith(byQuery())['400']?.description ?? '', /version_unsupported/)
    // A path that names another version is another path.
    assert.deepEqual(Object.keys(responsesWith(byPath())), ['200', '204', '400', 'default'])
    assert.deepEqual(Object.keys(responsesWith(byVendorMediaType({ vendor: 'acme' }))), [
      '200', '204', '400', '406', 'default',
    ])
  })

  test('has the vendor type for successful JSON responses, and not for errors and empty responses', () => {
    const cases: [Selector, string][] = [
      [byVendorMediaType({ vendor: 'acme' }), 'application/vnd.acme.v1+json'],
      [byMediaTypeParameter({ vendor: 'acme' }), 'application/vnd.acme+json;version=1'],
    ]
    for (const [selector, type] of cases) {
      const responses = responsesWith(selector)
      assert.deepEqual(responses['200']?.content?.[type], { schema: { type: 'object' } })
      assert.equal(responses['204']?.content, undefined)
      assert.ok(!Object.keys(responses['400']?.content ?? {}).includes(type))
    }
  })

  test('has only errors that a request for this operation can get', () => {
    const codes = (handler: Handler, at = 0) =>
      [...JSON.stringify(handler.operations?.[at]?.openapi['responses']).matchAll(/`(version_\w+)`/g)]
        .map(([, code]) => code)
        .sort()
    const own = told(() => json(200, {}), [{ ...operation, path: '/users' }])
    const made = (select: readonly Selector[], more: object = {}) =>
      versions({ 1: { handler: own, deprecated: '2025-01-01', sunset: '2025-02-01' } }, { select, ...more })
    assert.deepEqual(codes(made([byQuery()])), ['version_ambiguous', 'version_invalid', 'version_unsupported'])
    assert.deepEqual(codes(made([byQuery()], { default: 'required', afterSunset: 'gone' })), [
      'version_ambiguous', 'version_gone', 'version_invalid', 'version_required', 'version_unsupported',
    ])
    assert.deepEqual(codes(made([byPath()])), [])
    assert.deepEqual(codes(made([byPath()]), 1), [])
    assert.deepEqual(codes(made([byPath(), byQuery()], { default: 'required' })), ['version_ambiguous'])
  })

  test('has only the deprecation headers that are sent', () => {
    const names = (options: object) => {
      const handler = versions(
        { 1: { handler: told(() => json(200, {}), [operation]), deprecated: '2025-01-01', ...options } },
        { select: [byQuery()], advertise: false },
      )
      const policy = deprecated({ deprecated: '2025-01-01', ...options })
      const [one, other] = [handler.operations?.[0], policy.describe?.(operation)].map((each) => {
        const { 200: good } = each?.openapi['responses'] as Record<string, { headers?: object }>
        return Object.keys(good?.headers ?? {})
      })
      assert.deepEqual(one, other)
      return one
    }
    assert.deepEqual(names({}), ['Deprecation'])
    assert.deepEqual(names({ sunset: '2026-01-01' }), ['Deprecation', 'Sunset'])
    assert.deepEqual(names({ successor: '/v2' }), ['Deprecation', 'Link'])
  })

  test('contains no entry twice', () => {
    assert.equal(responsesWith(byQuery())['400']?.description.match(/version_unsupported/g)?.length, 1)
    assert.ok(!('401' in responsesWith(byQuery())))
  })

  test('has a version in the query as a parameter', () => {
    const handler = versions({ 1: told(() => json(200, {}), [operation]) }, { select: [byQuery({ parameter: 'v' })] })
    const parameters = handler.operations?.[0]?.openapi['parameters'] as { name: string, in: string }[]
    assert.deepEqual(parameters.map((one) => [one.in, one.name]), [['query', 'v']])
  })

  test('has a version in a header as a parameter', () => {
    const handler = versions({ 1: told(() => json(200, {}), [operation]) }, { select: [byHeader()] })
    const parameters = handler.operations?.[0]?.openapi['parameters'] as { name: string, in: string }[]
    assert.deepEqual(parameters.map((one) => [one.in, one.name]), [['header', 'API-Version']])
  })

  test('marks only deprecated versions', () => {
    const own = told(() => json(200, {}), [operation])
    const handler = versions({ 1: { handler: own, deprecated: '2025-01-01' }, 2: own }, { select: [byQuery()] })
    const said = handler.operations?.map(({ openapi }) => {
      const good = (openapi['responses'] as Record<string, { headers?: object }>)['200']
      return [openapi['deprecated'], Object.keys(good?.headers ?? {}).includes('Deprecation')]
    })
    assert.deepEqual(said, [[true, true], [undefined, false]])
  })

  describe('has versions in the path as separate paths, each with its own `deprecated`', () => {
    const own = told(() => json(200, {}), [operation])
    const inRouter = router({ 'GET /users': own, 'GET /users/{id}': own })
    const info = { title: 'Users', version: '1' }
    type Paths = Record<
      string,
      Record<string, { deprecated?: boolean; parameters?: { in: string; name: string }[]; responses: Responses }>
    >
    type Responses = Record<string, { headers?: object, content?: object }>
    const pathsOf = (handler: Handler): Paths => dereference<{ paths: Paths }>(openapi(handler, { info })).paths
    const deprecations = (handler: Handler) =>
      Object.fromEntries(Object.entries(pathsOf(handler)).map(([path, { get }]) => [path, get?.deprecated]))
    const served = (select: readonly Selector[], more: { default?: string } = {}) =>
      versions({ 1: { handler: inRouter, deprecated: '2025-01-01' }, 2: inRouter }, { select, ...more })

    test('below routers of the versions, and the path without a version as it is served', () => {
      assert.deepEqual(deprecations(served([byPath()])), {
        '/v1/users': true,
        '/v1/users/{id}': true,
        '/v2/users': undefined,
        '/users': undefined,
        '/v2/users/{id}': undefined,
        '/users/{id}': undefined,
      })
      assert.deepEqual(deprecations(served([byPath()], { default: '1' }))['/users'], true)
      assert.deepEqual(Object.keys(pathsOf(served([byPath({ prefix: 'api' })], { default: 'required' }))), [
        '/api1/users', '/api1/users/{id}', '/api2/users', '/api2/users/{id}',
      ])
    })
    test('at a route whose first segment is the version, and not at other routes', () => {
      const bare = versions(
        { 1: { handler: own, deprecated: '2025-01-01' }, 2: own },
        { select: [byPath(), byQuery()] },
      )
      const host = router({ '/users/{id}': bare, '/{version}/users/{id}': bare, '/v2/people': bare })
      assert.deepEqual(deprecations(host), {
        '/users/{id}': false,
        '/v1/users/{id}': true,
        '/v2/users/{id}': undefined,
        '/v2/people': undefined,
      })
      const named = (path: string) =>
        pathsOf(host)[path]?.['get']?.parameters?.map(({ in: where, name }) => `${where} ${name}`)
      assert.deepEqual([named('/users/{id}'), named('/v1/users/{id}')], [['path id', 'query version'], ['path id']])
    })
    test('with other selectors as parameters and media types', () => {
      const paths = pathsOf(served([byPath(), byQuery(), byVendorMediaType({ vendor: 'acme' })]))
      const types = (path: string) => Object.keys(paths[path]?.['get']?.responses['200']?.content ?? {})
      assert.deepEqual(types('/v1/users'), ['application/json', 'application/vnd.acme.v1+json'])
      assert.deepEqual(types('/v2/users'), ['application/json', 'application/vnd.acme.v2+json'])
      assert.deepEqual(types('/users').sort(), [
        'application/json', 'application/vnd.acme.v1+json', 'application/vnd.acme.v2+json',
      ])
      assert.equal(paths['/users']?.['get']?.deprecated, false)
      const fields = (path: string) => Object.keys(paths[path]?.['get']?.responses['200']?.headers ?? {})
      assert.deepEqual(
        [fields('/v1/users').includes('Deprecation'), fields('/v2/users').includes('Deprecation')],
        [true, false],
      )
    })
    test('even with policies around them', () => {
      const around = compose(deprecated({ deprecated: '2025-01-01' }), served([byPath()], { default: 'required' }))
      assert.deepEqual(Object.keys(pathsOf(router({ '/{version}/users': around }))), ['/v1/users', '/v2/users'])
    })
    test('in a document that passes a linter', async () => {
      const document = openapi(
        router({
          '/users/{id}': served([byPath(), byQuery()]),
          '/{version}/users/{id}': served([byPath(), byQuery()]),
        }),
        {
          info: { ...info, license: { name: 'MIT', identifier: 'MIT' } },
          servers: [{ url: 'https://api.acme.test' }],
          security: [],
        },
      )
      const config = await createConfig({ extends: ['recommended'], rules: { 'operation-summary': 'off' } })
      const found = await lintFromString({ source: JSON.stringify(document), config })
      assert.deepEqual(found.map(({ ruleId, message }) => `${ruleId}: ${message}`), [])
    })
  })

  test('has no entry for an undescribed handler, even if every version shares it', () => {
    const [bare, own] = [() => json(200, {}), told(() => json(200, {}), [operation])]
    assert.equal(versions({ 1: bare }, { select: [byPath()] }).operations, undefined)
    assert.equal(versionNeutral(bare, { select: [byPath()] }).operations, undefined)
    assert.deepEqual(versionNeutral(own, { select: [byPath()] }).operations, [operation])
  })
})
