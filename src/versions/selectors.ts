import { parseAccept } from '../http/fields/accept.js'
import type { HttpRequest } from '../http/exchange.js'
import { Memo } from '../runtime/collections.js'
import { checkNames } from '../runtime/option-names.js'
import { fieldText } from '../http/fields/reader.js'
import { parameter as describeParameter } from '../openapi/operation.js'

/** A version that a request names. */
export interface Candidate {
  /** As sent; may be no version at all. */
  readonly text: string
  /** Weight of the preference, above 0 up to 1. */
  readonly q: number
  /** The place in the field, for equals. */
  readonly at: number
  /** The media type that it was asked in, for the answer. */
  readonly mediaType?: string
}

/** The version that a request names in one of the four ways. */
export interface Asked {
  readonly candidates: readonly Candidate[]
  /** The client would also take an answer of any version. */
  readonly optional: boolean
}

/** One way to choose a version (SPEC 9). */
export interface Selector {
  readonly way: 'path' | 'query' | 'media-type' | 'media-type-parameter'
  /**
   * The status that says a version is not served: 404 in the path, 400 in the query, 406 in Accept.
   */
  readonly unsupported: 400 | 404 | 406
  /** The request field that the choice depends on, where it is a negotiation. */
  readonly vary?: string
  /** `undefined` when the request says nothing in this way. */
  readonly ask: (request: HttpRequest) => Asked | undefined
  /**
   * The mount path below which the handler is to see the request, where the version stands in the
   * path.
   */
  readonly mountPath?: (request: HttpRequest) => string | undefined
  /** The vendor's media types, which handlers know as `application/json`. */
  readonly isVendorType?: (type: string, subtype: string) => boolean
  /**
   * Addition to a description: the query parameter that it reads, the media type or the path in
   * which a version is answered.
   */
  readonly describe?: {
    /** The parameter object of what it reads. */
    readonly parameter?: Readonly<Record<string, unknown>>
    /** The media type that stands for a version. */
    readonly mediaType?: (version: string) => string
    /** The first segment of the paths that a version has for itself. */
    readonly segment?: (version: string) => string
  }
}

const NAME = /^[a-z0-9][a-z0-9!#$&^_-]{0,63}$/
/** Matches text that is meant as a version, right or wrong; `8-engine` is not. */
const MEANT = /^\d[\d.]*(?:-[0-9A-Za-z.-]*)?$/

function checkName(what: string, name: string): string {
  if (!NAME.test(name)) {
    throw new TypeError(
      `${what} must be lower-case letters, digits and - _, not ${JSON.stringify(name)}`
    )
  }
  return name
}

/**
 * Reads the version from the first segment below the mount path: `/v1/users`. A segment that is no
 * version, such as `v8-engine`, belongs to a path without a version. `prefix` stands in front of
 * the number; default `v`.
 *
 * @example
 * versions({ '1.0.0': handler }, { select: [byPath()] })
 */
export function byPath(options: {
  /** The text before the number, in lower case. Default `v`, as in `/v1/users`. */
  readonly prefix?: string,
} = {}): Selector {
  checkNames('byPath', options, { prefix: 0 })
  const { prefix = 'v' } = options
  checkName('byPath: prefix', prefix)
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
      return text === undefined
        ? undefined
        : { candidates: [{ text, q: 1, at: 0 }], optional: false }
    },
    mountPath: (request) => {
      const text = segment(request)
      return versionIn(text) === undefined ? undefined : `${request.mountPath}/${text}`
    },
    describe: { segment: (version) => `${prefix}${version}` },
  }
}

/**
 * Reads the version from a query parameter: `?version=1`. Two different values are a 400.
 *
 * @example
 * versions({ '1.0.0': handler }, { select: [byQuery({ parameter: 'api-version' })] })
 */
export function byQuery(options: {
  /** Name of the query parameter. Default `version`. */
  readonly parameter?: string,
} = {}): Selector {
  checkNames('byQuery', options, { parameter: 0 })
  const { parameter = 'version' } = options
  if (parameter === '') throw new TypeError('byQuery: parameter must not be empty')
  return {
    way: 'query',
    unsupported: 400,
    ask: (request) => {
      if (request.search === '') return undefined
      const texts = request.query.getAll(parameter)
      return texts.length === 0
        ? undefined
        : { candidates: texts.map((text, at) => ({ text, q: 1, at })), optional: false }
    },
    describe: { parameter: describeParameter('query', parameter, { description: 'The version that is wanted' }) },
  }
}

/**
 * Reads the version from a media type in Accept, by its `q` value: `application/vnd.acme.v1+json`.
 *
 * @example
 * versions({ '1.0.0': handler }, { select: [byVendorMediaType({ vendor: 'acme' })] })
 */
export function byVendorMediaType(options: {
  /** The vendor in the media type: `acme` for `application/vnd.acme.v1+json`. */
  readonly vendor: string,
}): Selector {
  checkNames('byVendorMediaType', options, { vendor: 0 })
  const { vendor } = options
  const before = `vnd.${checkName('byVendorMediaType: vendor', vendor)}.v`
  const isVendorType = (type: string, subtype: string): boolean =>
    type === 'application' && subtype.startsWith(before) && subtype.endsWith('+json')
  return {
    way: 'media-type',
    unsupported: 406,
    vary: 'Accept',
    ask: accepted(
      isVendorType,
      (subtype) => subtype.slice(before.length, -'+json'.length),
      (version) => `application/${before}${version}+json`,
    ),
    isVendorType,
    describe: { mediaType: (version) => `application/${before}${version}+json` },
  }
}

/**
 * Reads the version from a parameter of a media type in Accept, by its `q` value:
 * `application/vnd.acme+json;version=1.2`. Without the parameter any version matches.
 *
 * @example
 * versions({ '1.0.0': handler }, { select: [byMediaTypeParameter({ vendor: 'acme' })] })
 */
export function byMediaTypeParameter(options: {
  /** The vendor in the media type: `acme` for `application/vnd.acme+json`. */
  readonly vendor: string,
  /** Name of the parameter of the media type. Default `version`. */
  readonly parameter?: string,
}): Selector {
  checkNames('byMediaTypeParameter', options, { vendor: 0, parameter: 0 })
  const { vendor, parameter = 'version' } = options
  const name = `vnd.${checkName('byMediaTypeParameter: vendor', vendor)}+json`
  checkName('byMediaTypeParameter: parameter', parameter)
  const isVendorType = (type: string, subtype: string): boolean =>
    type === 'application' && subtype === name
  return {
    way: 'media-type-parameter',
    unsupported: 406,
    vary: 'Accept',
    ask: accepted(
      isVendorType,
      (_, params) => params.get(parameter),
      (version) => `application/${name};${parameter}=${version}`,
    ),
    isVendorType,
    describe: { mediaType: (version) => `application/${name};${parameter}=${version}` },
  }
}

/** The versions in an Accept field, cached by the few texts that clients send. */
function accepted(
  isVendorType: (type: string, subtype: string) => boolean,
  read: (
    subtype: string, params: ReadonlyMap<string, string>,
  ) => string | undefined, mediaType: (version: string) => string,
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
    accept === undefined || accept === '*/*' ? undefined : known.get(fieldText(accept)).asked
}
