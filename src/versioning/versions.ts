import { channel } from 'node:diagnostics_channel'
import { parseAccept } from '../http/accept.js'
import { DerivedRequest } from '../http/derived-request.js'
import { httpError, HttpError } from '../http/errors.js'
import { describe, type Handler, type HttpRequest, type HttpResponse } from '../http/exchange.js'
import { addVary } from '../http/fields.js'
import { addDeprecation, toDeprecation, type Deprecation, type DeprecationOptions } from './deprecation.js'
import type { Selector } from './selectors.js'
import { bestVersion, isVersion, sortVersions, toFull, type Named } from './version.js'

/** One version: its handler, and, when it is on its way out, since when and until when. */
export interface VersionOptions<C> extends Partial<DeprecationOptions> {
  readonly handler: Handler<C>
}

export interface VersionsOptions<C> {
  /** The ways in which a client may choose, SPEC 9's four or some of them. Ways that disagree are a 400. */
  readonly select: readonly Selector[]
  /**
   * What a request without a version gets: `latest` (default; the newest that is not deprecated and no
   * pre-release), `lowest`, `required` (400 `version_required`), or a version.
   */
  readonly default?: string
  /** What a version answers once its sunset is past: as before (`serve`, default) or 410 `version_gone` (`gone`). */
  readonly afterSunset?: 'serve' | 'gone'
  /** Sends `Api-Supported-Versions` and `Api-Deprecated-Versions` with every answer. Default `true`. */
  readonly advertise?: boolean
  /** Who asks, for those who count who still uses what. */
  readonly principal?: (request: HttpRequest<C>) => string | undefined
}

/** What `diagnostics_channel` `longhaul:version` tells of each request. */
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

interface Chosen {
  readonly version: string
  readonly selector: Selector | undefined
  /** As the client wrote it. */
  readonly asked: string
}

const uses = channel('longhaul:version')

/**
 * One handler out of several versions of it (SPEC 9). The chosen one sees its vendor media types as
 * `application/json`, and a version in the path as part of the mount path. Throws a `TypeError` when an
 * option makes no sense. Errors: 400 `version_required`, `version_invalid`, `version_ambiguous`; `version_unsupported` as 404 in
 * the path, 406 in Accept, 400 in the query; 410 `version_gone`.
 */
export function versions<C = unknown>(served: Readonly<Record<string, VersionOptions<C> | Handler<C>>>, options: VersionsOptions<C>): Handler<C> {
  const { select, afterSunset = 'serve', advertise = true, principal } = options
  const named = sortVersions(Object.keys(served))
  if (named.length === 0) throw new TypeError('versions: name at least one version')
  if (select.length === 0) throw new TypeError('versions: name at least one way to select, such as byPath()')
  const table = new Map(named.map(({ name }) => [name, toServed(name, served[name] as VersionOptions<C> | Handler<C>)]))
  const fallback = defaultVersion(options.default ?? 'latest', named, (name) => table.get(name)?.deprecation !== undefined)
  const vary = [...new Set(select.flatMap((selector) => selector.vary ?? []))]
  const told = advertise ? advertisement(named, (name) => table.get(name)?.deprecation !== undefined) : {}

  const finish = (response: HttpResponse): HttpResponse => {
    if (vary.length > 0) addVary(response.headers, ...vary)
    Object.assign(response.headers, told)
    return response
  }
  const handler = async (request: HttpRequest<C>): Promise<HttpResponse | undefined> => {
    try {
      const chosen = choose(request, select, named) ?? fallback
      if (!chosen) throw httpError('version_required', { message: `Name a version: ${named.map(({ name }) => name).join(', ')}.` })
      const { handler: next, deprecation } = table.get(chosen.version) as Served<C>
      if (uses.hasSubscribers) {
        const use: VersionUse = {
          version: chosen.version, way: chosen.selector?.way ?? 'default', deprecated: deprecation !== undefined,
          principal: principal?.(request), method: request.method, path: request.path,
        }
        uses.publish(use)
      }
      if (deprecation && afterSunset === 'gone' && Date.now() >= deprecation.sunsetAt) {
        throw httpError('version_gone', { headers: { ...deprecation.headers, ...(deprecation.links ? { link: deprecation.links } : {}) } })
      }
      const response = await next(toInner(request, chosen, select))
      if (!response) return undefined
      const answer = { ...response, headers: { ...response.headers } }
      const type = chosen.selector?.mediaType?.(chosen.asked)
      if (type !== undefined && answer.headers['content-type'] === 'application/json') answer.headers['content-type'] = type
      if (deprecation) addDeprecation(answer.headers, deprecation)
      return finish(answer)
    } catch (error) {
      throw withHeaders(error, vary, told)
    }
  }
  const operations = [...table.values()].flatMap((each) => each.handler.operations ?? [])
  return operations.length > 0 ? describe(handler, operations) : handler
}

function toServed<C>(name: string, given: VersionOptions<C> | Handler<C>): Served<C> {
  if (typeof given === 'function') return { handler: given, deprecation: undefined }
  const { handler, deprecated, ...rest } = given
  if (typeof handler !== 'function') throw new TypeError(`versions: ${name} has no handler`)
  if (deprecated === undefined) {
    if (rest.sunset !== undefined) throw new TypeError(`versions: ${name} has a sunset but no deprecated date`)
    return { handler, deprecation: undefined }
  }
  return { handler, deprecation: toDeprecation({ deprecated, ...rest }, `versions: ${name}`) }
}

function defaultVersion(policy: string, named: readonly Named[], isDeprecated: (name: string) => boolean): Chosen | undefined {
  if (policy === 'required') return undefined
  const stable = named.filter(({ full }) => full.prerelease.length === 0)
  const found = policy === 'lowest' ? (stable[0] ?? named[0])
    : policy === 'latest' ? (stable.findLast(({ name }) => !isDeprecated(name)) ?? stable.at(-1) ?? named.at(-1))
      : named.find(({ name, full }) => name === policy || (isVersion(policy) && full.compare(toFull(policy)) === 0))
  if (!found) throw new TypeError(`versions: default ${JSON.stringify(policy)} is neither latest, lowest, required nor a version that is served`)
  return { version: found.name, selector: undefined, asked: found.name }
}

function choose<C>(request: HttpRequest<C>, select: readonly Selector[], named: readonly Named[]): Chosen | undefined {
  let chosen: Chosen | undefined
  for (const selector of select) {
    const asked = selector.ask(request)
    if (!asked) continue
    const found = chooseOne(selector, asked.versions, asked.optional ?? false, named)
    if (!found) continue
    if (chosen && chosen.version !== found.version) throw httpError('version_ambiguous')
    chosen ??= found
  }
  return chosen
}

function chooseOne(selector: Selector, asked: readonly string[], optional: boolean, named: readonly Named[]): Chosen | undefined {
  const negotiated = selector.vary !== undefined
  if (!negotiated && new Set(asked).size > 1) throw httpError('version_ambiguous')
  for (const text of asked) {
    const version = bestVersion(text, named)
    if (version !== undefined) return { version, selector, asked: text }
  }
  // Of an Accept that takes other types too, what is not served is no more than not liked best.
  if (optional) return undefined
  if (!negotiated && !isVersion(asked[0] ?? '')) throw httpError('version_invalid')
  throw new HttpError(selector.unsupported, 'version_unsupported', {
    message: `This version is not served; there are: ${named.map(({ name }) => name).join(', ')}.`,
  })
}

function toInner<C>(request: HttpRequest<C>, chosen: Chosen, select: readonly Selector[]): HttpRequest<C> {
  const mountPath = chosen.selector?.mountPath?.(request)
  const { accept } = request.headers
  const vendors = select.filter((selector) => selector.isVendorType)
  const named = accept !== undefined && accept !== '*/*' && vendors.length > 0
    && parseAccept(accept).some(({ type, subtype }) => vendors.some((selector) => selector.isVendorType?.(type, subtype)))
  if (mountPath === undefined && !named) return request
  return new DerivedRequest(request, {
    ...(mountPath === undefined ? {} : { mountPath }),
    ...(named ? { headers: { ...request.headers, accept: withoutVendor(accept, vendors) } } : {}),
  })
}

/** The Accept field with the vendor's types as `application/json`. */
function withoutVendor(accept: string | string[], vendors: readonly Selector[]): string {
  return parseAccept(accept).map(({ type, subtype, params, q }) => {
    const vendor = vendors.some((selector) => selector.isVendorType?.(type, subtype))
    const rest = vendor ? '' : [...params].map(([name, value]) => `;${name}=${JSON.stringify(value)}`).join('')
    return `${vendor ? 'application/json' : `${type}/${subtype}`}${rest}${q === 1 ? '' : `;q=${String(q)}`}`
  }).join(', ')
}

function advertisement(named: readonly Named[], isDeprecated: (name: string) => boolean): Record<string, string> {
  const list = (wanted: boolean) => named.filter(({ name }) => isDeprecated(name) === wanted).map(({ name }) => name).join(', ')
  const [supported, old] = [list(false), list(true)]
  return { ...(supported ? { 'api-supported-versions': supported } : {}), ...(old ? { 'api-deprecated-versions': old } : {}) }
}

/** Errors say the same of versions as answers do. */
function withHeaders(error: unknown, vary: readonly string[], told: Readonly<Record<string, string>>): unknown {
  if (!(error instanceof HttpError)) return error
  const { status, code, message, details, headers, cause } = error
  return new HttpError(status, code, {
    message, ...(details ? { details } : {}), ...(cause === undefined ? {} : { cause }),
    headers: { ...told, ...headers, ...(vary.length > 0 ? { vary: vary.join(', ') } : {}) },
  })
}
