import { parseAccept } from '../http/headers/accept.js'
import type { HttpRequest } from '../http/exchange.js'
import { Memo } from '../runtime/collections.js'
import { readOptions, text } from '../runtime/options.js'
import { headerText } from '../http/headers/reader.js'
import { parameter as describeParameter } from '../openapi/operation.js'

export interface Candidate {
  /** The string as sent. It may not be a version at all. */
  readonly text: string
  readonly q: number
  /** Index in the header, which decides the order of equal weights. */
  readonly at: number
  readonly mediaType?: string
}

export interface Asked {
  readonly candidates: readonly Candidate[]
  /** True if the client also accepts a response of any version. */
  readonly optional: boolean
}

/** One way to choose a version. */
export interface Selector {
  readonly way: 'path' | 'query' | 'header' | 'media-type' | 'media-type-parameter'
  /** Status for a version that is not served: 404 in the path, 400 in the query or a header, 406 in Accept. */
  readonly unsupported: 400 | 404 | 406
  /** The request header that the choice depends on. */
  readonly vary?: string
  /** Returns the versions that the request names in this way; `undefined` for none. */
  readonly ask: (request: HttpRequest) => Asked | undefined
  /** Returns the mount path of the handler, if the version is a part of the path. */
  readonly mountPath?: (request: HttpRequest) => string | undefined
  /** Returns true for media types of the vendor. Handlers see `application/json` instead. */
  readonly isVendorType?: (type: string, subtype: string) => boolean
  /** Media type that allows any version. */
  readonly anyVersion?: string
  /** Additions to the OpenAPI description. */
  readonly describe?: {
    /** The query parameter, or the header, that it reads. */
    readonly parameter?: Readonly<Record<string, unknown>>
    /** Returns the media type of a version. */
    readonly mediaType?: (version: string) => string
    /** Returns the first segment of the paths of a version. */
    readonly segment?: (version: string) => string
  }
}

const NAME = /^[a-z0-9][a-z0-9!#$&^_-]{0,63}$/
/** Matches strings that are meant as a version, valid or not; `8-engine` is not. */
const MEANT = /^\d[\d.]*(?:-[0-9A-Za-z.-]*)?$/

const expects = 'lower-case letters, digits and - _'
const VENDOR = text({ pattern: NAME, expects, required: true })
const PREFIX = text({ pattern: NAME, expects, default: 'v' })
const PARAMETER = text({ pattern: NAME, expects, default: 'version' })
const HEADER = text({ pattern: /^[A-Za-z][A-Za-z0-9-]{0,63}$/, expects: 'letters, digits and -', default: 'API-Version' })

/**
 * Reads the version from the first segment below the mount path: `/v1/users`. Another segment, such
 * as `v8-engine`, belongs to a path without a version.
 * @example
 * versions({ '1.0.0': handler }, { select: [byPath()] })
 */
export function byPath(options: {
  /** The string before the number, in lower case. Default `v`, as in `/v1/users`. */
  readonly prefix?: string,
} = {}): Selector {
  const { prefix } = readOptions('byPath', options, { prefix: PREFIX })
  const segment = ({ path, mountPath }: HttpRequest): string => {
    const start = mountPath.length + 1
    const end = path.indexOf('/', start)
    return path.slice(start, end === -1 ? undefined : end)
  }
  const versionIn = (text: string): string | undefined => {
    if (!text.startsWith(prefix)) return undefined
    const version = text.slice(prefix.length)
    return MEANT.test(version) && (!version.includes('-') || version.split('-', 1)[0]?.split('.').length === 3) ? version : undefined
  }
  return {
    way: 'path',
    unsupported: 404,
    ask: (request) => {
      const text = versionIn(segment(request))
      return text === undefined ? undefined : askedFor([text])
    },
    mountPath: (request) => {
      const text = segment(request)
      return versionIn(text) === undefined ? undefined : `${request.mountPath}/${text}`
    },
    describe: { segment: (version) => `${prefix}${version}` },
  }
}

/**
 * Reads the version from a query parameter: `?version=1`. Two different values get a 400.
 * @example
 * versions({ '1.0.0': handler }, { select: [byQuery({ parameter: 'api-version' })] })
 */
export function byQuery(options: {
  /** Name of the parameter. Default `version`. */
  readonly parameter?: string,
} = {}): Selector {
  const { parameter } = readOptions('byQuery', options, { parameter: text({ default: 'version' }) })
  return {
    way: 'query',
    unsupported: 400,
    ask: ({ search, query }) => (search === '' ? undefined : askedFor(query.getAll(parameter))),
    describe: { parameter: describeParameter('query', parameter, { description: 'The version that is wanted' }) },
  }
}

/**
 * Reads the version from a request header: `API-Version: 2`. Two different values get a 400.
 * Responses have the header in `Vary`.
 * @example
 * versions({ '1.0.0': handler }, { select: [byHeader({ header: 'X-Acme-Version' })] })
 */
export function byHeader(options: {
  /** Name of the request header. Default `API-Version`. */
  readonly header?: string,
} = {}): Selector {
  const { header } = readOptions('byHeader', options, { header: HEADER })
  const name = header.toLowerCase()
  return {
    way: 'header',
    unsupported: 400,
    vary: header,
    ask: ({ headers: { [name]: header } }) => {
      const texts = header === undefined ? [] : headerText(header).split(',')
      return askedFor(texts.map((each) => each.trim()))
    },
    describe: { parameter: describeParameter('header', header, { description: 'The version that is wanted' }) },
  }
}

/**
 * Reads the version from a media type in Accept, by its `q` value: `application/vnd.acme.v1+json`.
 * @example
 * versions({ '1.0.0': handler }, { select: [byVendorMediaType({ vendor: 'acme' })] })
 */
export function byVendorMediaType(options: {
  /** The vendor in the media type, such as `acme` in `application/vnd.acme+json`. */
  readonly vendor: string,
}): Selector {
  const { vendor } = readOptions('byVendorMediaType', options, { vendor: VENDOR })
  const before = `vnd.${vendor}.v`
  const mediaType = (version: string): string => `application/${before}${version}+json`
  const isVendorType = (type: string, subtype: string): boolean =>
    type === 'application' && subtype.startsWith(before) && subtype.endsWith('+json')
  return {
    way: 'media-type',
    unsupported: 406,
    vary: 'Accept',
    ask: accepted(
      isVendorType, (subtype) => subtype.slice(before.length, -'+json'.length), mediaType,
    ),
    isVendorType,
    describe: { mediaType },
  }
}

/**
 * Reads the version from a parameter of a media type in Accept, by its `q` value:
 * `application/vnd.acme+json;version=1.2`. Without the parameter any version matches.
 * @example
 * versions({ '1.0.0': handler }, { select: [byMediaTypeParameter({ vendor: 'acme' })] })
 */
export function byMediaTypeParameter(options: {
  /** The vendor in the media type, such as `acme` in `application/vnd.acme+json`. */
  readonly vendor: string,
  /** Name of the parameter. Default `version`. */
  readonly parameter?: string,
}): Selector {
  const { vendor, parameter } =
    readOptions('byMediaTypeParameter', options, { vendor: VENDOR, parameter: PARAMETER })
  const name = `vnd.${vendor}+json`
  const mediaType = (version: string): string => `application/${name};${parameter}=${version}`
  const isVendorType = (type: string, subtype: string): boolean =>
    type === 'application' && subtype === name
  return {
    way: 'media-type-parameter',
    unsupported: 406,
    vary: 'Accept',
    ask: accepted(isVendorType, (_, params) => params.get(parameter), mediaType),
    isVendorType,
    anyVersion: `application/${name}`,
    describe: { mediaType },
  }
}

function askedFor(texts: readonly string[]): Asked | undefined {
  if (texts.length === 0) return undefined
  return { candidates: texts.map((text, at) => ({ text, q: 1, at })), optional: false }
}

function accepted(
  isVendorType: (type: string, subtype: string) => boolean,
  read: (subtype: string, params: ReadonlyMap<string, string>) => string | undefined,
  mediaType: (version: string) => string,
): (request: HttpRequest) => Asked | undefined {
  const askedIn = (accept: string): Asked | undefined => {
    const candidates: Candidate[] = []
    let optional = false
    parseAccept(accept).forEach(({ type, subtype, params, q }, at) => {
      if (q === 0) return
      const text = isVendorType(type, subtype) ? read(subtype, params) : undefined
      if (text !== undefined) candidates.push({ text, q, at, mediaType: mediaType(text) })
      else if (type === '*' || (type === 'application' && (subtype === '*' || subtype === 'json'))
        || isVendorType(type, subtype)) {
        optional = true
      }
    })
    return candidates.length === 0 ? undefined : { candidates, optional }
  }
  const known = new Memo((accept: string) => ({ asked: askedIn(accept) }))
  return ({ headers: { accept } }) =>
    accept === undefined || accept === '*/*' ? undefined : known.get(headerText(accept)).asked
}

/**
 * Makes the request for the handler of one version: a version in the path is part of the mount
 * path, and `application/json` replaces the media types of the vendor.
 */
export function innerRequests<C>(
  select: readonly Selector[],
): (request: HttpRequest<C>, version?: string) => HttpRequest<C> {
  const known = new Memo((accept: string) => ({ plain: plainAccept(accept, select) }))
  return (request, version) => {
    let mountPath: string | undefined
    for (const selector of select) mountPath ??= selector.mountPath?.(request)
    const { accept } = request.headers
    const plain = accept === undefined || accept === '*/*'
      ? undefined
      : known.get(headerText(accept)).plain
    if (mountPath === undefined && plain === undefined && version === undefined) return request
    return request.with({
      ...version === undefined ? {} : { version },
      ...mountPath === undefined ? {} : { mountPath },
      ...plain === undefined ? {} : { headers: { ...request.headers, accept: plain } },
    })
  }
}

/**
 * Returns Accept with one `application/json` for all media types of the vendor, if it names any.
 */
function plainAccept(accept: string, select: readonly Selector[]): string | undefined {
  const ranges = parseAccept(accept)
  const isVendor = ({ type, subtype }: { type: string; subtype: string }): boolean =>
    select.some((selector) => selector.isVendorType?.(type, subtype))
  const vendors = ranges.filter(isVendor)
  if (vendors.length === 0) return undefined
  const others = ranges.filter((range) => !isVendor(range)).map(({ type, subtype, params, q }) => {
    const rest = [...params]
      .map(([name, value]) => `;${name}="${value.replaceAll(/["\\]/g, '\\$&')}"`).join('')
    return `${type}/${subtype}${rest}${weight(q)}`
  })
  const q = Math.max(...vendors.map((range) => range.q))
  // A vendor type with q=0 excludes one version, not the others.
  return (q === 0 ? others : [`application/json${weight(q)}`, ...others]).join(', ') || '*/*'
}

function weight(q: number): string {
  return q === 1 ? '' : `;q=${String(q)}`
}
