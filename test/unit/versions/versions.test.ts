import assert from 'node:assert/strict'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { describe, test } from 'node:test'
import { memory } from '../../../adapters/memory/index.js'
import { httpError, HttpError } from '../../../src/http/errors.js'
import { compose, type Handler } from '../../../src/http/exchange.js'
import { json } from '../../../src/http/respond.js'
import { router } from '../../../src/resources/router.js'
import { defineTask } from '../../../src/tasks/definition/define.js'
import { taskEndpoints } from '../../../src/tasks/http/endpoints.js'
import { createTasks } from '../../../src/tasks/tasks.js'
import { inject } from '../../../src/testing/index.js'
import {
  byHeader, byMediaTypeParameter, byPath, byQuery, byVendorMediaType,
} from '../../../src/versions/selectors.js'
import { deprecated } from '../../../src/versions/deprecation.js'
import { versionNeutral } from '../../../src/versions/versions.js'
import { versions, type VersionUse } from '../../../src/versions/versions.js'
import { ask, request as asked } from '../kit/request.js'

const shows = (version: string): Handler => () => json(200, { version })
const select = [byPath(), byQuery(), byVendorMediaType({ vendor: 'acme' })]
const PAST = '2025-01-01T00:00:00Z'
const SUNSET = '2025-07-01T00:00:00Z'

describe('the deprecation of a version', () => {
  test('SPEC 9.2: is an HTTP date, with sunset and links', async () => {
    const handler = versions(
      {
        '1': {
          handler: shows('1'),
          deprecated: PAST,
          format: 'http-date',
          sunset: '2999-12-31T23:59:59Z',
          link: 'https://x.test/why',
          sunsetLink: 'https://x.test/when',
          successor: '/v2',
        },
        '2': shows('2'),
      },
      { select },
    )
    const { headers } = await ask(handler, { path: '/v1' })
    assert.equal(headers['deprecation'], 'Wed, 01 Jan 2025 00:00:00 GMT', 'deprecation')
    assert.equal(headers['sunset'], 'Tue, 31 Dec 2999 23:59:59 GMT', 'sunset')
    assert.match(
      String(headers['link']),
      /<https:\/\/x\.test\/why>; rel="deprecation".*<https:\/\/x\.test\/when>; rel="sunset".*<\/v2>; rel="successor-version"/,
      'links',
    )
    assert.equal(headers['api-deprecated-versions'], '1', 'told')
    assert.equal(headers['api-supported-versions'], '2', 'told')
    const current = await ask(handler, { path: '/v2' })
    for (const name of ['deprecation', 'sunset', 'link']) assert.equal(current.headers[name], undefined, name)
  })

  test('RFC 9745 section 2.1: is a structured date by default', async () => {
    const handler = compose(deprecated({ deprecated: PAST }), shows('x'))
    const { headers } = await ask(handler)
    assert.equal(headers['deprecation'], `@${Date.parse(PAST) / 1000}`, 'a structured date')
    assert.ok(!('link' in headers), 'no field for links where there are none')
  })

  test('has its headers on errors, beside their own', async () => {
    const broken: Handler = ({ path }) => {
      if (path.endsWith('plain')) throw new Error('x')
      if (path.endsWith('boom'))
        throw Object.assign(new Error('x'), {
          isBoom: true,
          output: { statusCode: 418, payload: { message: 'teapot' } },
        })
      throw new HttpError(409, 'mine', {
        headers: { 'retry-after': '3', 'vary': 'Cookie', 'link': '</a>; rel="a"' },
        members: { more: 1 },
        details: [{ pointer: '/a', message: 'b' }],
      })
    }
    const handler = versions({ '1': { handler: broken, deprecated: PAST, link: '/b' }, '2': shows('2') }, { select })
    for (const [path, status] of [['/v1/own', 409], ['/v1/plain', 500], ['/v1/boom', 418]] as const) {
      const answer = await ask(handler, { path })
      assert.equal(answer.status, status, path)
      assert.equal(answer.headers['deprecation'], '@1735689600', path)
      assert.equal(answer.headers['api-deprecated-versions'], '1', path)
    }
    const { headers, json: body } = await ask(handler, { path: '/v1/own' })
    assert.equal(headers['retry-after'], '3', 'its own field')
    assert.equal(headers['vary'], 'Cookie, Accept', 'both')
    assert.equal(headers['link'], '</a>; rel="a", </b>; rel="deprecation"; type="text/html"', 'both')
    assert.deepEqual(body, { error: 'mine', code: 'mine', details: [{ pointer: '/a', message: 'b' }], more: 1 }, 'body')
  })

  test('does not change a response that a handler uses again, whose own headers stay', async () => {
    const same = Object.freeze({
      status: 200,
      headers: Object.freeze({ link: '</x>; rel="x"', sunset: 'Tue, 01 Jan 2030 00:00:00 GMT', vary: 'Prefer' }),
    })
    const handler = versions(
      { '1': { handler: () => same, deprecated: PAST, sunset: '2031-01-01', successor: '/v2' } },
      { select },
    )
    for (let time = 0; time < 2; time++) {
      const { headers } = await ask(handler)
      assert.equal(headers['sunset'], 'Tue, 01 Jan 2030 00:00:00 GMT', 'its own sunset')
      assert.deepEqual(headers['link'], ['</x>; rel="x"', '</v2>; rel="successor-version"'], 'both links')
      assert.equal(headers['vary'], 'Prefer, Accept', 'both')
    }
  })

  test('RFC 8594: has the earlier of two sunsets, of the resource and of the version', async () => {
    const own = (sunset: string): Handler => () => ({ status: 200, headers: { sunset } })
    const sent = async (sunset: string, options: { deprecated: string, sunset?: string }) => {
      const { headers } = await ask(compose(deprecated(options), own(sunset)))
      return [headers['deprecation'], headers['sunset']]
    }
    const [task, version] = ['Thu, 01 Jan 2026 00:00:00 GMT', 'Mon, 01 Jun 2026 00:00:00 GMT']
    assert.deepEqual(await sent(task, { deprecated: PAST, sunset: version }), ['@1735689600', task])
    assert.deepEqual(await sent(version, { deprecated: PAST, sunset: task }), ['@1735689600', task])
    assert.deepEqual(await sent(task, { deprecated: PAST }), ['@1735689600', task])
    // RFC 9745 section 4: Sunset must not be before Deprecation. What ends before is never deprecated.
    assert.deepEqual(await sent(task, { deprecated: '2026-03-01', sunset: version }), [undefined, task])
    assert.deepEqual(await sent(task, { deprecated: '2026-01-01T00:00:00.900Z' }), ['@1767225600', task])
  })

  test('leaves the response unchanged after the sunset, or makes it a 410 with afterSunset: \'gone\'', async () => {
    const gone = { '1': { handler: shows('1'), deprecated: PAST, sunset: SUNSET, successor: '/v2' }, '2': shows('2') }
    assert.equal((await ask(versions(gone, { select }), { path: '/v1' })).status, 200, 'served on')
    const answer = await ask(versions(gone, { select, afterSunset: 'gone' }), { path: '/v1' })
    assert.deepEqual([answer.status, answer.json['code']], [410, 'version_gone'], 'gone')
    assert.equal(answer.headers['sunset'], 'Tue, 01 Jul 2025 00:00:00 GMT', 'since when')
    assert.match(String(answer.headers['link']), /successor-version/, 'what instead')
    const future = { '1': { handler: shows('1'), deprecated: PAST, sunset: '2999-01-01' } }
    assert.equal((await ask(versions(future, { select, afterSunset: 'gone' }), { path: '/v1' })).status, 200, 'not yet')
  })

  test('starts the 410 at the exact time of the sunset', async (t) => {
    t.mock.timers.enable({ apis: ['Date'], now: Date.parse(SUNSET) - 1 })
    const handler = versions(
      { '1': { handler: shows('1'), deprecated: PAST, sunset: SUNSET } },
      { select, afterSunset: 'gone' },
    )
    assert.equal((await ask(handler, { path: '/v1' })).status, 200)
    t.mock.timers.tick(1)
    assert.equal((await ask(handler, { path: '/v1' })).status, 410)
  })

  test('passes a declined request on', async () => {
    assert.equal(
      (await ask(versions({ '1': { handler: () => undefined, deprecated: PAST } }, { select }))).status,
      0,
      'not mine',
    )
    assert.equal((await ask(compose(deprecated({ deprecated: PAST }), () => undefined))).status, 0, 'not mine')
  })
})

describe('the default version', () => {
  const old = { handler: shows('2'), deprecated: PAST }
  const rows: [served: Parameters<typeof versions>[0], policy: string | undefined, expected: string][] = [
    [{ '1': shows('1'), '10': shows('10'), '9': shows('9') }, undefined, '10'],
    [{ '1': shows('1'), '2': old }, undefined, '1'],
    [{ '1': shows('1'), '2': shows('2'), '3.0.0-rc.1': shows('3.0.0-rc.1') }, 'latest', '2'],
    [{ '2': old }, undefined, '2'],
    [{ '1': { handler: shows('1') }, '2': old }, undefined, '1'],
    [{ '1': { handler: shows('1'), deprecated: PAST }, '2': old, '3.0.0-rc.1': shows('3.0.0-rc.1') }, undefined, '2'],
    [{ '1': shows('1'), '2': shows('2') }, 'lowest', '1'],
    [{ '1.0.0-rc.1': shows('1.0.0-rc.1'), '2.0.0-rc.1': shows('2.0.0-rc.1') }, 'lowest', '1.0.0-rc.1'],
    [{ '3.0.0-rc.1': shows('3.0.0-rc.1') }, undefined, '3.0.0-rc.1'],
    [{ '2': shows('2'), '1.5': shows('1.5') }, 'lowest', '1.5'],
    [{ '1': shows('1'), '2': shows('2') }, '1', '1'],
    [{ '1': shows('1'), '2': shows('2') }, '1.0.0', '1'],
  ]
  for (const [served, policy, expected] of rows) {
    test(`SPEC 9.3: is ${expected} of ${Object.keys(served).join(', ')} by ${policy ?? 'no policy'}`, async () => {
      assert.equal(
        (await ask(versions(served, { select, ...(policy === undefined ? {} : { default: policy }) }))).json['version'],
        expected,
        'the default',
      )
    })
  }
})

test('a diagnostics channel reports who uses which version', async () => {
  const told: VersionUse[] = []
  const listener = (use: unknown): void => { told.push(use as VersionUse) }
  const handler = versions({ '1': { handler: shows('1'), deprecated: PAST }, '2': shows('2') }, { select })
  subscribe('longhaul:version', listener)
  try {
    await ask(handler, { path: '/v1/x', context: { principal: { subject: 'ann' } } })
    await ask(handler, { path: '/x' })
    await ask(handler, { path: '/v9/x' })
  } finally {
    unsubscribe('longhaul:version', listener)
  }
  await ask(handler, { path: '/v1/x' })
  assert.deepEqual(told, [
    { version: '1', way: 'path', deprecated: true, principal: 'ann', method: 'GET', path: '/v1/x' },
    { version: '2', way: 'default', deprecated: false, principal: undefined, method: 'GET', path: '/x' },
  ], 'one for each request that got a version')
})

test('a version-neutral handler responds in every version and without a version', async () => {
  const handler = versionNeutral(
    ({ path, mountPath, headers }) =>
      json(200, { local: path.slice(mountPath.length), accept: headers['accept'] ?? null }),
    { select },
  )
  for (const path of ['/health', '/v1/health', '/v99/health'])
    assert.equal((await ask(handler, { path })).json['local'], '/health', path)
  assert.equal(
    (await ask(handler, { headers: { accept: 'application/vnd.acme.v7+json' } })).json['accept'],
    'application/json',
    'the type',
  )
})

test('each Location leads to a version-neutral status resource', async (t) => {
  const report = defineTask({ name: 'report', run: (_input: object) => ({}) })
  const tasks = createTasks({ ...memory(), definitions: [report] })
  t.after(() => tasks.close())
  const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
  const served = { '1': router({ 'POST /reports': endpoints.submit(report, { respond: 'always' }) }), '2': shows('2') }
  const all = [...select, byHeader()]
  const [reports, status] = [
    versions(served, { select: all, default: 'required' }),
    versionNeutral(endpoints.status, { select: all }),
  ]
  const site = router({
    '/reports': reports,
    '/{version}/reports': reports,
    'GET|HEAD|DELETE /tasks/{id}': status,
    'GET|HEAD|DELETE /{version}/tasks/{id}': status,
  })
  for (const [path, headers] of [
    ['/v1/reports', {}],
    ['/reports?version=1', {}],
    ['/reports', { accept: 'application/vnd.acme.v1+json' }],
    ['/reports', { 'api-version': '1' }],
  ] as [string, Record<string, string>][]) {
    const accepted = await inject(site, {
      method: 'POST',
      path,
      body: '{}',
      headers: { 'content-type': 'application/json', ...headers },
    })
    const location = String(accepted.headers['location'])
    for (const sent of [{}, headers]) {
      const polled = await inject(site, { path: location, headers: sent })
      assert.deepEqual([accepted.status, polled.status], [202, 200], `${path} ${location}`)
    }
  }
})

test('a versioned handler is synchronous if the handler of the version is synchronous', () => {
  const request = asked({ path: '/v1' })
  assert.ok(!(versions({ '1': shows('1') }, { select })(request) instanceof Promise), 'no promise')
})

test('invalid options of versions throw at construction', () => {
  const handler = shows('x')
  const wrong: [() => unknown, RegExp][] = [
    [() => versions({}, { select }), /at least one version/],
    [() => versions({ '1': handler }, { select: [] }), /byPath/],
    [() => versions({ '1': handler, '1.0': handler }, { select }), /same version/],
    [() => versions({ v1: handler }, { select }), /no version/],
    [() => versions({ '1': handler }, { select, default: '3' }), /default/],
    [() => versions({ '1': handler }, { select, afterSunset: 'x' as never }), /afterSunset/],
    [() => versions({ '1': {} as never }, { select }), /handler is missing/],
    [() => versions({ '1': { handler, sunset: SUNSET } }, { select }), /no deprecated date/],
    [() => versions({ '1': { handler, deprecated: SUNSET, sunset: PAST } }, { select }), /before deprecated/],
    [() => deprecated({ deprecated: 'soon' }), /deprecated must be a Date, or the string of one/],
    [() => byPath({ prefix: '/v' }), /prefix/],
    [() => byVendorMediaType({ vendor: 'A b' }), /vendor/],
    [() => byQuery({ parameter: '' }), /parameter/],
    [() => byHeader({ header: 'a b' }), /header must be letters/],
    [() => byMediaTypeParameter({ vendor: 'acme', parameter: 'a b' }), /parameter/],
    [() => versionNeutral(handler, { select: [] }), /byPath/],
  ]
  for (const [make, what] of wrong)
    assert.throws(make, (error) => error instanceof TypeError && what.test(error.message), String(what))
  assert.doesNotThrow(() => deprecated({ deprecated: PAST, sunset: PAST }), 'a sunset at once')
  assert.ok(httpError('version_gone').status === 410, 'the code is there')
})
