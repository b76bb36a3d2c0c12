import { channel } from 'node:diagnostics_channel'
import { withHeaders, addVary } from '../http/respond.js'
import { httpError } from '../http/errors.js'
import { negotiate } from '../http/headers/accept.js'
import {
  describe, type Handler, type HttpRequest, type HttpResponse, type Operation, type ResponseHeaders,
} from '../http/exchange.js'
import type { MaybePromise } from '../runtime/maybe-promise.js'
import { Memo } from '../runtime/collections.js'
import { flag, func, oneOf, readOptions, text, value, type OptionTable } from '../runtime/options.js'
import {
  addParameters, addResponseHeaders, addResponses, changed, header, type Fragment,
} from '../openapi/operation.js'
import { errorContent } from '../openapi/errors.js'
import { errorResponses } from '../openapi/responses.js'
import { principalOf } from '../http/principal.js'
import {
  bestVersion, choose, isVersion, sortVersions, toFull, type Chosen, type Named,
} from './choose.js'
import {
  addDeprecation, deprecate, DEPRECATION, toDeprecation, type Deprecation, type DeprecationOptions,
} from './deprecation.js'
import { innerRequests, type Selector } from './selectors.js'

/** One version: its handler, and its dates if it is deprecated. */
export interface VersionOptions<C> extends Partial<DeprecationOptions> {
  readonly handler: Handler<C>
}

/** Options of `versions`. */
export interface VersionsOptions {
  /**
   * The ways in which a client may choose a version. If two find different versions, it gets a 400.
   */
  readonly select: readonly Selector[]
  /**
   * Version of a request that names none: `latest` (the newest that is neither deprecated nor a
   * pre-release), `lowest`, `required` (400 `version_required`), or a version. Default: 'latest'.
   */
  readonly default?: string
  /**
   * After its sunset, a version responds as before (`serve`), or with 410 `version_gone` (`gone`).
   * Default: 'serve'.
   */
  readonly afterSunset?: 'serve' | 'gone'
  /**
   * Adds `Api-Supported-Versions` and `Api-Deprecated-Versions` to every response. Default: true.
   */
  readonly advertise?: boolean
}

/** Message of the diagnostics channel `longhaul:version`, one for each request. */
export interface VersionUse {
  readonly version: string
  /** The way in which it was chosen; `default` if the request named none. */
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
const SELECT = value('a list of ways to select, such as [byPath()]', (select) => (
  Array.isArray(select) && select.length > 0 && select.every((each: Partial<Selector> | null) => (
    typeof each?.ask === 'function'
  ))
), { required: true })
const OPTIONS = {
  select: SELECT,
  default: text({ default: 'latest' }),
  afterSunset: oneOf(['serve', 'gone'], { default: 'serve' }),
  advertise: flag({ default: true }),
} satisfies OptionTable<VersionsOptions>
const VERSION = {
  handler: func({ required: true }),
  ...DEPRECATION,
  deprecated: { ...DEPRECATION.deprecated, required: false },
} satisfies OptionTable<VersionOptions<unknown>>

/**
 * Combines several versions of a handler. `1` chooses the newest 1.x.y, `1.2` the newest 1.2.x
 * (semver.org). A pre-release must be named in full. The handler sees `application/json` instead of
 * vendor media types, and a version in the path as a part of the mount path.
 *
 * Errors: 400 `version_required`, `version_invalid`, `version_ambiguous`; 410 `version_gone`;
 * `version_unsupported` is 404 in the path, 406 in Accept and 400 in the query.
 * @example
 * const old = { handler, deprecated: '2026-01-01', sunset: '2027-01-01' }
 * const users = versions({ '1.0.0': old, '2.0.0': handler }, { select: [byPath(), byQuery()] })
 * @throws {TypeError} A version, date or selector is missing or not valid, or an option is unknown.
 */
export function versions<C = unknown>(
  served: Readonly<Record<string, VersionOptions<C> | Handler<C>>>, options: VersionsOptions,
): Handler<C> {
  const named = sortVersions(Object.keys(served ?? {}))
  if (named.length === 0) throw new TypeError('versions: name at least one version')
  const {
    select, default: policy, afterSunset, advertise,
  } = readOptions('versions', options, OPTIONS)
  const table = new Map(
    named.map(({ name }) => [name, toServed(name, served[name] as VersionOptions<C> | Handler<C>)])
  )
  const isOld = (name: string): boolean => table.get(name)?.deprecation !== undefined
  const fallback = defaultVersion(policy, named, isOld)
  const vary = [...new Set(select.flatMap((selector) => selector.vary ?? []))]
  const names = named.map(({ name }) => name)
  const all = names.join(', ')
  const supported = names.filter((name) => !isOld(name)).join(', ')
  const superseded = names.filter(isOld).join(', ')
  const inner = innerRequests<C>(select)
  const known = new Memo((text: string) => ({ name: bestVersion(text, named) }))
  const varied = new Memo((text: string) => ({ text: withVary(text, vary) }))
  const best = (text: string): string | undefined => known.get(text).name
  const typed = vendorTypes(select)

  const serve = (request: HttpRequest<C>, { name, way, mediaType }: Chosen): MaybePromise<HttpResponse | undefined> => {
    const version = table.get(name) as Served<C>
    if (uses.hasSubscribers) publishUse(request, { version: name, way, deprecated: version.deprecation !== undefined })
    return serveVersion(version, inner(request, name), mediaType, afterSunset)
  }
  const finish = (headers: ResponseHeaders): void => {
    if (vary.length > 0) headers['vary'] = varied.get(String(headers['vary'] ?? '')).text
    if (!advertise) return
    if (supported !== '') headers['api-supported-versions'] = supported
    if (superseded !== '') headers['api-deprecated-versions'] = superseded
  }
  const unfinished: Handler<C> = (request) => {
    const chosen = choose(request, select, best, all) ?? fallback
    if (!chosen) throw httpError('version_required', { message: `Name a version: ${all}.` })
    return serve(request, typed(request, chosen))
  }
  const handler: Handler<C> = Object.assign(
    (request: HttpRequest<C>) => withHeaders(unfinished, request, finish),
    { places: [{ name: 'versions' }] },
  )
  const operations = [...table].flatMap(([name, { handler: own, deprecation }]) => describeVersion({
    name, handler: own, deprecation, isDefault: name === fallback?.name,
    isRequired: fallback === undefined, canBeGone: afterSunset === 'gone',
  }, select, advertise))
  return operations.length > 0 ? Object.assign(handler, { operations }) : handler
}

/** Calls the handler of a version, and adds the headers of its deprecation. */
function serveVersion<C>(
  { handler, deprecation }: Served<C>, request: HttpRequest<C>, mediaType: string | undefined,
  afterSunset: 'serve' | 'gone',
): MaybePromise<HttpResponse | undefined> {
  if (deprecation === undefined && mediaType === undefined) return handler(request)
  const next: Handler<C> = (own) => {
    if (deprecation && afterSunset === 'gone' && Date.now() >= deprecation.sunsetAt) {
      throw httpError('version_gone')
    }
    return handler(own)
  }
  return withHeaders(next, request, (headers) => {
    if (mediaType !== undefined && headers['content-type'] === 'application/json') {
      headers['content-type'] = mediaType
    }
    if (deprecation) addDeprecation(headers, deprecation)
  })
}

function publishUse(
  request: HttpRequest, use: Pick<VersionUse, 'version' | 'way' | 'deprecated'>,
): void {
  const { method, path } = request
  uses.publish({ ...use, principal: principalOf(request)?.subject, method, path } satisfies VersionUse)
}

/** Returns a function that finds the media type for a client that prefers any version of the vendor's type. */
function vendorTypes(select: readonly Selector[]): (request: HttpRequest, chosen: Chosen) => Chosen {
  const types = select.flatMap(({ anyVersion, describe }) => (
    anyVersion === undefined ? [] : [{ anyVersion, describe, offers: ['application/json', anyVersion] }]
  ))
  return ({ headers: { accept } }, chosen) => {
    if (chosen.mediaType !== undefined || accept === undefined) return chosen
    const found = types.find(({ anyVersion, offers }) => negotiate(accept, offers) === anyVersion)
    return found ? { ...chosen, mediaType: found.describe?.mediaType?.(chosen.name) } : chosen
  }
}

function toServed<C>(name: string, given: VersionOptions<C> | Handler<C>): Served<C> {
  if (typeof given === 'function') return { handler: given, deprecation: undefined }
  const { handler, deprecated, ...rest } = readOptions(`versions: ${name}`, given, VERSION)
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
  let found: Named | undefined
  if (policy === 'lowest') found = stable[0] ?? named[0]
  else if (policy === 'latest') {
    found = stable.findLast(({ name }) => !isDeprecated(name)) ?? stable.at(-1) ?? named.at(-1)
  } else {
    found = named.find(({ name, full }) => (
      name === policy || (isVersion(policy) && full.compare(toFull(policy)) === 0)
    ))
  }
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
 * Serves a handler in every version, even an unknown one or none, such as a health check.
 * @example
 * const health = versionNeutral(() => json(200, { ok: true }), { select: [byPath()] })
 */
export function versionNeutral<C = unknown>(
  handler: Handler<C>, options: Pick<VersionsOptions, 'select'>,
): Handler<C> {
  const { select } = readOptions('versionNeutral', options, { select: SELECT })
  const inner = innerRequests<C>(select)
  const neutral: Handler<C> = (request) => handler(inner(request))
  return handler.operations ? describe(neutral, handler.operations) : neutral
}

type Content = Readonly<Record<string, Fragment>>

const ADVERTISED = {
  'Api-Supported-Versions': header('Versions that are served'),
  'Api-Deprecated-Versions': header('Deprecated versions that are still served'),
}
const UNSUPPORTED = {
  description: '`version_unsupported`: This version is not served.',
  content: errorContent,
}

interface DescribedVersion {
  readonly name: string
  readonly handler: Handler<never>
  readonly deprecation: Deprecation | undefined
  /** `true` if a request without a version gets this one. */
  readonly isDefault: boolean
  /** `true` if a request without a version gets an error. */
  readonly isRequired: boolean
  /** `true` if the version ends at its sunset. */
  readonly canBeGone: boolean
}

function describeVersion(
  { name, handler, deprecation, isDefault, isRequired, canBeGone }: DescribedVersion,
  select: readonly Selector[], advertise: boolean,
): Operation[] {
  const segments = select.flatMap(({ describe }) => describe?.segment?.(name) ?? [])
  const others = select.filter(({ describe }) => describe?.segment === undefined)
  const finish = (operation: Operation): Operation => {
    const isEnding = canBeGone && deprecation !== undefined && deprecation.sunsetAt < Infinity
    const told = isEnding ? addResponses(operation, errorResponses('version_gone')) : operation
    const complete = deprecation ? deprecate(told, deprecation) : told
    return advertise ? addResponseHeaders(complete, ADVERTISED) : complete
  }
  return ((handler as Handler).operations ?? []).flatMap((operation) => [
    ...segments.map((versionSegment) => {
      const { path } = operation
      const below = path === undefined
        ? {}
        : { path: `/${versionSegment}${path === '/' ? '' : path}` }
      // The path names a version that is served, so the other ways can only name another one.
      const failures = others.length > 0 ? errorResponses('version_ambiguous') : {}
      const types = others.filter(({ describe }) => describe?.parameter === undefined)
      return finish(addResponses(
        chosenBy({ ...operation, ...below, versionSegment }, name, types), failures,
      ))
    }),
    ...segments.length === 0 || others.length > 0 || isDefault
      ? [finish(addResponses(chosenBy(operation, name, others), failuresOf(others, isRequired)))] : [],
  ])
}

/** Describes the errors of a request that names its version in these ways, or in none. */
function failuresOf(ways: readonly Selector[], isRequired: boolean): Readonly<Record<string, Fragment>> {
  if (ways.length === 0) return {}
  const statuses = new Set(ways.map(({ unsupported }) => unsupported))
  const responses = errorResponses(
    'version_invalid',
    ...isRequired ? ['version_required'] as const : [],
    ...statuses.has(400) ? ['version_unsupported', 'version_ambiguous'] as const : [],
  )
  return { ...responses, ...statuses.has(406) && { 406: UNSUPPORTED } }
}

function chosenBy(operation: Operation, name: string, ways: readonly Selector[]): Operation {
  let told = operation
  for (const { describe } of ways) {
    if (describe?.parameter !== undefined) told = addParameters(told, [describe.parameter])
    if (describe?.mediaType !== undefined) told = withMediaType(told, describe.mediaType(name))
  }
  return told
}

function withMediaType(operation: Operation, mediaType: string): Operation {
  const responses = operation.openapi['responses'] as Readonly<Record<string, Fragment>>
  const withType = Object.entries(responses).map(([status, response]) => {
    const content = response['content'] as Content | undefined
    const json = content?.['application/json']
    if (json === undefined || Number(status) >= 400) return [status, response] as const
    return [status, { ...response, content: { ...content, [mediaType]: json } }] as const
  })
  return changed(operation, { responses: Object.fromEntries(withType) })
}
