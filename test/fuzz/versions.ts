import assert from 'node:assert/strict'
import fc from 'fast-check'
import { satisfies, valid } from 'semver'
import { splitTarget } from '../../src/http/request.js'
import { json } from '../../src/http/respond.js'
import {
  byMediaTypeParameter, byPath, byQuery, byVendorMediaType,
} from '../../src/versions/selectors.js'
import { versions } from '../../src/versions/versions.js'
import { bestVersion, isVersion, sortVersions } from '../../src/versions/choose.js'
import { fakeRequest } from '../unit/kit/request.js'
import { linear } from './frame/linear.js'
import { mutated } from './frame/mutate.js'
import { refusal } from './frame/rule.js'

const NAMES = ['1', '1.2', '2.0.0', '2.1.3', '3.0.0-beta.1']
const TEXTS = ['1', '1.2', '2.0', '2.1.3', '3.0.0-beta.1', '3', '0', '10.0.0', 'v1', '1.x']
const PATHS = [
  '/v1/users', '/v2.1/users', '/v3.0.0-beta.1', '/v8-engine/x', '/users', '/', '/v', '/v1', '/V1/x',
  '/v01/users', '/v1.2.3.4/x',
]
const QUERIES = [
  '?version=1', '?version=2.1&version=2.1.3', '?version=', '?a=1', '?version=1&version=2',
  '?version=%31', '?version=9',
]
const ACCEPTS = [
  'application/vnd.acme.v1+json', 'application/vnd.acme+json;version=2.1',
  'application/vnd.acme.v1+json;q=0.5, application/vnd.acme.v2+json', 'application/json', '*/*',
  'application/vnd.acme.v9+json, */*;q=0.1', 'application/vnd.acme+json',
  'application/vnd.acme+json;version="1";q=0', 'application/vnd.acme.v+json',
]
const PIECES = [
  '1', '2', '.', '-beta', 'v', '/', '%2e', 'version=', '&', ';q=0.5', ', ',
  'application/vnd.acme.v2+json', '+json', '999999999', '00',
]
const served = sortVersions(NAMES)

const handler = versions(
  Object.fromEntries(
    NAMES.map((name) => [
      name,
      ({ path, mountPath, headers }) => json(200, { name, path, mountPath, accept: headers['accept'] }),
    ]),
  ),
  {
    select: [byPath(), byQuery(), byVendorMediaType({ vendor: 'acme' }), byMediaTypeParameter({ vendor: 'acme' })],
  },
)

async function ask(target: string, accept: string | undefined): Promise<void> {
  const { path, search } = splitTarget(target)
  const request = {
    ...fakeRequest(accept === undefined ? {} : { headers: { accept } }),
    path,
    query: new URLSearchParams(search),
  }
  try {
    const answer = await handler(request)
    assert.equal(answer?.status, 200)
    const { name, mountPath } = JSON.parse(answer?.body as string) as { name: string; mountPath: string }
    assert.ok(NAMES.includes(name))
    assert.ok(path.startsWith(mountPath))
    assert.match(String(answer.headers['vary']), /Accept/)
  } catch (error) {
    assert.match(refusal(error).code, /^version_(?:ambiguous|invalid|unsupported)$/)
  }
}

export const rules = {
  'the best version is the newest that semver finds': fc.property(mutated(TEXTS, PIECES), (text) => {
    const found = bestVersion(text, served)
    if (!isVersion(text)) {
      assert.equal(found, undefined)
      return
    }
    const fits = served.filter(({ full }) =>
      text.includes('-') ? valid(text) === full.version : full.prerelease.length === 0 && satisfies(full, text),
    )
    assert.equal(found, fits.at(-1)?.name)
  }),
  'whatever is asked for is answered or refused': fc.asyncProperty(
    mutated(PATHS, PIECES),
    fc.oneof(fc.constant(''), mutated(QUERIES, PIECES)),
    fc.option(mutated(ACCEPTS, PIECES), { nil: undefined }),
    (path, query, accept) => ask(`/${path.replace(/^\/+/, '')}${query}`, accept),
  ),
  'takes linear time in a path': linear([...PIECES, 'a', '-'], (text) => ask(`/v1${text}`, undefined)),
  'takes linear time in a query': linear([...PIECES, 'a', '-'], (text) => ask(`/users?version=1${text}`, undefined)),
  'takes linear time in Accept': linear([...ACCEPTS, ...PIECES, ','], (text) => ask('/users', text)),
}
