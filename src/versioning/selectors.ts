import { parseAccept } from '../http/accept.js'
import type { HttpRequest } from '../http/exchange.js'

/** What a request says about the version, in one of the four ways. */
export interface Asked {
  /** Versions in the order of preference, as sent; several only where the way itself is a negotiation. */
  readonly versions: readonly string[]
  /** The client would also take an answer of any version. */
  readonly optional?: boolean
}

/** One way to choose a version (SPEC 9). */
export interface Selector {
  readonly way: 'path' | 'query' | 'media-type' | 'media-type-parameter'
  /** The status that says a version is not served: 404 in the path, 400 in the query, 406 in Accept. */
  readonly unsupported: 400 | 404 | 406
  /** The request field that the choice depends on. */
  readonly vary?: string
  /** `undefined` when the request says nothing in this way. */
  readonly ask: (request: HttpRequest) => Asked | undefined
  /** The mount path below which the handler is to see the request, where the version stands in the path. */
  readonly mountPath?: (request: HttpRequest) => string | undefined
  /** The media type of an answer of this version, where the client named one. */
  readonly mediaType?: (version: string) => string
  /** The vendor's media types, which handlers know as `application/json`. */
  readonly isVendorType?: (type: string, subtype: string) => boolean
}

const TOKEN = /^[a-z0-9][a-z0-9!#$&^_-]{0,63}$/

function checkName(what: string, name: string): string {
  if (!TOKEN.test(name)) throw new TypeError(`${what} must be lower-case letters, digits and - _, not ${JSON.stringify(name)}`)
  return name
}

/** `{base}/v<N>/users`: the first segment below the mount path. `prefix` stands before the number; default `v`. */
export function byPath({ prefix = 'v' }: { readonly prefix?: string } = {}): Selector {
  checkName('byPath: prefix', prefix)
  const segment = ({ path, mountPath }: HttpRequest) => {
    const start = mountPath.length + 1
    const end = path.indexOf('/', start)
    return path.slice(start, end === -1 ? undefined : end)
  }
  const versionIn = (text: string) => (text.startsWith(prefix) && /^\d/.test(text.slice(prefix.length)) ? text.slice(prefix.length) : undefined)
  return {
    way: 'path',
    unsupported: 404,
    ask: (request) => {
      const version = versionIn(segment(request))
      return version === undefined ? undefined : { versions: [version] }
    },
    mountPath: (request) => {
      const text = segment(request)
      return versionIn(text) === undefined ? undefined : `${request.mountPath}/${text}`
    },
  }
}

/** `?version=<N>`. Given twice with different values it is ambiguous. */
export function byQuery({ parameter = 'version' }: { readonly parameter?: string } = {}): Selector {
  return {
    way: 'query',
    unsupported: 400,
    ask: (request) => {
      // Read only when it may be there: most requests have no query.
      const versions = request.query.getAll(parameter)
      return versions.length === 0 ? undefined : { versions }
    },
  }
}

/** `Accept: application/vnd.<vendor>.v<N>+json`, by its `q` values. */
export function byVendorMediaType({ vendor }: { readonly vendor: string }): Selector {
  const before = `vnd.${checkName('byVendorMediaType: vendor', vendor)}.v`
  const isVendorType = (type: string, subtype: string) => type === 'application' && subtype.startsWith(before) && subtype.endsWith('+json')
  return {
    way: 'media-type',
    unsupported: 406,
    vary: 'Accept',
    ask: (request) => accepted(request, (type, subtype) => (isVendorType(type, subtype) ? subtype.slice(before.length, -'+json'.length) : undefined)),
    mediaType: (version) => `application/${before}${version}+json`,
    isVendorType,
  }
}

/** `Accept: application/vnd.<vendor>+json;version=<N.N>`, by its `q` values. */
export function byMediaTypeParameter({ vendor, parameter = 'version' }: { readonly vendor: string; readonly parameter?: string }): Selector {
  const name = `vnd.${checkName('byMediaTypeParameter: vendor', vendor)}+json`
  const isVendorType = (type: string, subtype: string) => type === 'application' && subtype === name
  return {
    way: 'media-type-parameter',
    unsupported: 406,
    vary: 'Accept',
    ask: (request) => accepted(request, (type, subtype, params) => (isVendorType(type, subtype) ? params.get(parameter) : undefined)),
    mediaType: (version) => `application/${name};${parameter}=${version}`,
    isVendorType,
  }
}

type Reader = (type: string, subtype: string, params: ReadonlyMap<string, string>) => string | undefined

function accepted(request: HttpRequest, read: Reader): Asked | undefined {
  const { accept } = request.headers
  if (accept === undefined || accept === '*/*') return undefined
  const versions: { version: string; q: number }[] = []
  let optional = false
  for (const { type, subtype, params, q } of parseAccept(accept)) {
    if (q === 0) continue
    const version = read(type, subtype, params)
    if (version !== undefined) versions.push({ version, q })
    else if (type === '*' || (type === 'application' && (subtype === '*' || subtype === 'json'))) optional = true
  }
  if (versions.length === 0) return undefined
  // Stable: equals stay in the order sent.
  return { versions: versions.sort((a, b) => b.q - a.q).map(({ version }) => version), optional }
}
