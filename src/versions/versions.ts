import { channel } from 'node:diagnostics_channel'
import { withHeaders, addVary } from '../http/respond.js'
import { httpError } from '../http/errors.js'
import {
  describe, type Handler, type HttpRequest, type HttpResponse, type ResponseHeaders,
} from '../http/exchange.js'
import type { MaybePromise } from '../runtime/maybe-promise.js'
import { Memo } from '../runtime/collections.js'
import { checkNames } from '../runtime/option-names.js'
import { principalOf } from '../http/requester.js'
import { choose, type Chosen } from './choose.js'
import {
  addDeprecation, DEPRECATION, toDeprecation, type Deprecation, type DeprecationOptions,
} from './deprecation.js'
import { describeVersion } from './describe.js'
import { innerRequests } from './inner-request.js'
import type { Selector } from './selectors.js'
import { bestVersion, isVersion, sortVersions, toFull, type Named } from './version.js'

/** One version: its handler, and its dates if it is deprecated. */
export interface VersionOptions<C> extends Partial<DeprecationOptions> {
  readonly handler: Handler<C>
}

/** Options of `versions`. */
export interface VersionsOptions<C> {
  /**
   * The ways in which a client may choose a version, those of SPEC 9 or some of them. If two of
   * them find different versions, the answer is a 400.
   */
  readonly select: readonly Selector[]
  /**
   * The version of a request that names none: `latest` (the newest that is neither deprecated nor a
   * pre-release), `lowest`, `required` (400 `version_required`), or a version.
   * @default 'latest'
   */
  readonly default?: string
  /**
   * The answer of a version after its sunset: as before (`serve`), or 410 `version_gone` (`gone`).
   * @default 'serve'
   */
  readonly afterSunset?: 'serve' | 'gone'
  /**
   * If `true`, every answer has `Api-Supported-Versions` and `Api-Deprecated-Versions`.
   * @default true
   */
  readonly advertise?: boolean
  /**
   * Returns the caller that the channel `longhaul:version` reports. Default: the subject that
   * `authenticate` has found.
   */
  readonly principal?: (request: HttpRequest<C>) => string | undefined
}

/** Message of the diagnostics channel `longhaul:version`, one for each request. */
export interface VersionUse {
  readonly version: string
  /** The way in which it was chosen; `default` when the request did not say. */
  readonly way: Selector['way'] | 'default'
  readonly deprecated: boolean
  readonly principal: string | undefined
  readonly method: string
  readonly path: string
}

interface Served<C> {
  readonly handler: Handler<C>
  readonly deprecation: Deprecation | undefined
}

const uses = channel('longhaul:version')
const KNOWN = {
  select: 0, default: 0, afterSunset: 0, advertise: 0, principal: 0,
} satisfies Record<keyof VersionsOptions<unknown>, 0>
const VERSION = { handler: 0, ...DEPRECATION } satisfies Record<keyof VersionOptions<unknown>, 0>

/**
 * Combines several versions of a handler (SPEC 9). `1` chooses the newest 1.x.y, `1.2` the newest
 * 1.2.x (semver.org). A pre-release must be named in full. The chosen handler sees
 * `application/json` instead of vendor media types, and a version in the path as a part of the
 * mount path. Errors have the same version fields as answers.
 *
 * Errors: 400 `version_required`, `version_invalid`, `version_ambiguous`; 410 `version_gone`;
 * `version_unsupported` is 404 in the path, 406 in Accept and 400 in the query.
 *
 * @example
 * const old = { handler, deprecated: '2026-01-01', sunset: '2027-01-01' }
 * const users = versions({ '1.0.0': old, '2.0.0': handler }, { select: [byPath(), byQuery()] })
 *
 * @throws {TypeError} There is no version, a version, date or selector is not valid, or an option
 * is unknown.
 */
export function versions<C = unknown>(
  served: Readonly<Record<string, VersionOptions<C> | Handler<C>>>, options: VersionsOptions<C>,
): Handler<C> {
  const named = sortVersions(Object.keys(served ?? {}))
  if (named.length === 0) throw new TypeError('versions: name at least one version')
  checkNames('versions', options, KNOWN)
  const {
    select,
    afterSunset = 'serve',
    advertise = true,
    principal = (request) => principalOf(request)?.subject,
  } = options
  if (!(select?.length > 0)) {
    throw new TypeError('versions: name at least one way to select, such as byPath()')
  }
  if (afterSunset !== 'serve' && afterSunset !== 'gone') {
    throw new TypeError('versions: afterSunset must be serve or gone')
  }
  const table = new Map(
    named.map(({ name }) => [name, toServed(name, served[name] as VersionOptions<C> | Handler<C>)])
  )
  const isOld = (name: string): boolean => table.get(name)?.deprecation !== undefined
  const fallback = defaultVersion(options.default ?? 'latest', named, isOld)
  const vary = [...new Set(select.flatMap((selector) => selector.vary ?? []))]
  const listed = (old: boolean): string => advertise ? named.filter(({ name }) => isOld(name) === old).map(({ name }) => name).join(', ') : ''
  const [supported, superseded] = [listed(false), listed(true)]
  const all = named.map(({ name }) => name).join(', ')
  const inner = innerRequests<C>(select)
  const known = new Memo((text: string) => ({ name: bestVersion(text, named) }))
  const varied = new Memo((text: string) => ({ text: withVary(text, vary) }))
  const best = (text: string): string | undefined => known.get(text).name

  const serve = (request: HttpRequest<C>, chosen: Chosen): MaybePromise<HttpResponse | undefined> => {
    const { handler, deprecation } = table.get(chosen.name) as Served<C>
    if (uses.hasSubscribers) {
      const { name: version, way } = chosen
      const { method, path } = request
      uses.publish({ version, way, deprecated: deprecation !== undefined, principal: principal(request), method, path } satisfies VersionUse)
    }
    if (deprecation === undefined && chosen.mediaType === undefined) {
      return handler(inner(request, chosen.name))
    }
    const next: Handler<C> = (own) => {
      if (deprecation && afterSunset === 'gone' && Date.now() >= deprecation.sunsetAt) {
        throw httpError('version_gone')
      }
      return handler(own)
    }
    return withHeaders(next, inner(request, chosen.name), (headers) => {
      if (chosen.mediaType !== undefined && headers['content-type'] === 'application/json') {
        headers['content-type'] = chosen.mediaType
      }
      if (deprecation) addDeprecation(headers, deprecation)
    })
  }
  const finish = (headers: ResponseHeaders): void => {
    if (vary.length > 0) headers['vary'] = varied.get(String(headers['vary'] ?? '')).text
    if (supported !== '') headers['api-supported-versions'] = supported
    if (superseded !== '') headers['api-deprecated-versions'] = superseded
  }
  const unfinished: Handler<C> = (request) => {
    const chosen = choose(request, select, best, all) ?? fallback
    if (!chosen) throw httpError('version_required', { message: `Name a version: ${all}.` })
    return serve(request, chosen)
  }
  const handler: Handler<C> = Object.assign(
    (request: HttpRequest<C>) => withHeaders(unfinished, request, finish),
    { places: [{ name: 'versions' }] },
  )
  const operations = [...table].flatMap(([name, { handler: own, deprecation }]) =>
    describeVersion({ name, handler: own, deprecated: deprecation !== undefined, isDefault: name === fallback?.name }, select, advertise))
  return operations.length > 0 ? Object.assign(handler, { operations }) : handler
}

function toServed<C>(name: string, given: VersionOptions<C> | Handler<C>): Served<C> {
  if (typeof given === 'function') return { handler: given, deprecation: undefined }
  checkNames(`versions: ${name}`, given, VERSION)
  const { handler, deprecated, ...rest } = given
  if (typeof handler !== 'function') throw new TypeError(`versions: ${name} has no handler`)
  if (deprecated === undefined) {
    if (rest.sunset !== undefined) {
      throw new TypeError(`versions: ${name} has a sunset but no deprecated date`)
    }
    return { handler, deprecation: undefined }
  }
  return { handler, deprecation: toDeprecation({ deprecated, ...rest }, `versions: ${name}`) }
}

function defaultVersion(
  policy: string, named: readonly Named[], isDeprecated: (name: string) => boolean,
): Chosen | undefined {
  if (policy === 'required') return undefined
  const stable = named.filter(({ full }) => full.prerelease.length === 0)
  const found = policy === 'lowest' ? (stable[0] ?? named[0])
    : policy === 'latest' ? (stable.findLast(({ name }) => !isDeprecated(name)) ?? stable.at(-1) ?? named.at(-1))
      : named.find(({
        name, full,
      }) => name === policy || (isVersion(policy) && full.compare(toFull(policy)) === 0))
  if (!found) {
    throw new TypeError(`versions: default ${JSON.stringify(policy)} is neither latest, lowest, required nor a version that is served`)
  }
  return { name: found.name, way: 'default', mediaType: undefined }
}

function withVary(text: string, names: readonly string[]): string {
  const headers: ResponseHeaders = text === '' ? {} : { vary: text }
  addVary(headers, ...names)
  return headers['vary'] as string
}

/**
 * Serves a handler in every version, such as a health check. It answers requests that name any
 * version, an unknown one included, or none. The handler sees the request as a handler of
 * `versions` does.
 *
 * @example
 * const health = versionNeutral(() => json(200, { ok: true }), { select: [byPath()] })
 */
export function versionNeutral<C = unknown>(handler: Handler<C>, options: {
  /** The selectors of `versions`, which find the version that the request names. */
  readonly select: readonly Selector[],
}): Handler<C> {
  checkNames('versionNeutral', options, { select: 0 })
  const { select } = options
  if (select.length === 0) {
    throw new TypeError('versionNeutral: name the ways that versions() has, such as byPath()')
  }
  const inner = innerRequests<C>(select)
  const neutral: Handler<C> = (request) => handler(inner(request))
  return handler.operations ? describe(neutral, handler.operations) : neutral
}
