import { RESPONSE_CODINGS } from '../http/body/encode.js'
import { httpError, type ErrorCode } from '../http/errors.js'
import { describe, type Handler, type Operation } from '../http/exchange.js'
import { isHeaderValue } from '../http/headers/reader.js'
import { notModified } from '../openapi/errors.js'
import { errorResponses, responseHeaders, headerParameters } from '../openapi/responses.js'
import { header, parameter, readOperations, response, type Fragment } from '../openapi/operation.js'
import { oneOf, readOptions, value, type OptionTable } from '../runtime/options.js'
import {
  CODINGS, isCompressible, respond, type ContentCoding, type ContentPlan,
} from './response.js'
import { checkSource, type ContentSource, type FindContent } from './source.js'

/** Options of `content`. */
export interface ContentOptions {
  /**
   * Content codings, best first, for `compressible` content of 1 KiB or more. Default: none.
   *
   * A request with Range gets uncompressed content.
   *
   * Each has its own entity tag. `zstd` is left out where Node does not support it.
   */
  readonly codings?: readonly ContentCoding[]
  /**
   * Returns `true` for media types to compress. Default: text, JSON, XML, JavaScript and the like.
   */
  readonly compressible?: (type: string) => boolean
  /**
   * Sends `Content-Disposition` (RFC 6266) with the source's `name`; `attachment` makes browsers
   * save it. Default: not sent.
   */
  readonly disposition?: 'inline' | 'attachment'
  /**
   * Cache-Control of 200, 206 and 304. Public content: `public, max-age=3600`. Default: `private,
   * no-cache`, so that a browser asks before it uses its copy.
   */
  readonly cacheControl?: string
}

interface Default<T> { readonly default: T }

const OPTIONS = {
  codings: value<readonly ContentCoding[], Default<readonly ContentCoding[]>>(
    `an array of ${CODINGS.join(', ')}`,
    (codings) => Array.isArray(codings) && codings.every((each) => CODINGS.includes(each)),
    { default: [] },
  ),
  compressible: value<typeof isCompressible, Default<typeof isCompressible>>(
    'a function', (compressible) => typeof compressible === 'function', { default: isCompressible },
  ),
  disposition: oneOf(['inline', 'attachment']),
  cacheControl: value<string, Default<string>>(
    'a string that can be sent in a header',
    (cacheControl) => typeof cacheControl === 'string' && isHeaderValue(cacheControl),
    { default: 'private, no-cache' },
  ),
} satisfies OptionTable<ContentOptions>

/**
 * Serves something that may be larger than memory to GET and HEAD. Clients can pause and resume:
 * 200, 206 for one range or several, 416, 304 and 412 (RFC 9110 section 13.2.2). Sends the source's
 * digests as `Repr-Digest` (RFC 9530). If a source fails midway, the connection is cut.
 *
 * `source` may be a function that finds a source for a request, such as
 * `folderSource('/srv/files')` of `longhaul/files`. If it finds none, the handler declines. Other
 * methods get 405.
 * @example
 * const find = ({ params }: HttpRequest) => blobSource(blobs, `report-${params['id']}`)
 * app.get('/reports/:id', toNode(content(find, { disposition: 'attachment' })))
 * @throws {TypeError} The source or an option is not valid, or an option is unknown.
 */
export function content<C = unknown>(
  source: ContentSource | FindContent<C>, options: ContentOptions = {},
): Handler<C> {
  const plan = contentPlan(options)
  if (typeof source !== 'function') checkSource(source)
  const find: FindContent<C> = typeof source === 'function' ? source : () => source
  return describe<C>(async (request) => {
    const found = await find(request)
    if (found === undefined) return undefined
    const { method } = request
    if (method !== 'GET' && method !== 'HEAD') {
      throw httpError('method_not_allowed', { headers: { allow: 'GET, HEAD' } })
    }
    return respond(request, found, plan)
  }, contentOperations(typeof source === 'function' ? undefined : source.type))
}

export function contentPlan(options: ContentOptions): ContentPlan {
  const plan = readOptions('content', options, OPTIONS)
  return { ...plan, codings: plan.codings.filter((each) => RESPONSE_CODINGS.includes(each)) }
}

const READ = [
  headerParameters.range, headerParameters.wantReprDigest, headerParameters.ifMatch, headerParameters.ifNoneMatch,
  parameter('header', 'If-Range', { description: 'Send the part only of the version that has this entity tag or date (RFC 9110 section 13.1.5)' }),
  parameter('header', 'If-Modified-Since', { description: 'Respond with 304 if there was no change since (RFC 9110 section 13.1.3)' }),
  parameter('header', 'If-Unmodified-Since', { description: 'Respond with 412 if there was a change since (RFC 9110 section 13.1.4)' }),
]
const SENT = {
  ...responseHeaders('ETag', 'Accept-Ranges', 'Repr-Digest'),
  'Content-Disposition': header('Whether a browser shows or saves it, and the name of the file (RFC 6266)'),
}

/** Parts of the operation that differ between handlers. */
interface ContentOperationOptions {
  /** Code of the 404. Default: `not_found`. */
  readonly notFound?: ErrorCode
  /** Parameters of the path. Default: none. */
  readonly parameters?: readonly Fragment[]
  /** `false` if the content has no date, as in blobs. Default: true. */
  readonly dated?: boolean
  /** `true` if downloads are redirected. Default: false. */
  readonly redirects?: boolean
}

export const redirected = {
  307: response('The bytes are at this URL for a few minutes', { headers: responseHeaders('Location') }),
}

export function contentOperations(
  type?: string,
  { notFound = 'not_found', parameters = [], dated = true, redirects = false }: ContentOperationOptions = {},
): readonly Operation[] {
  // Generators that do not know `*/*` read the other one.
  const mediaTypes = type === undefined ? ['application/octet-stream', '*/*'] : [type]
  const headers = { ...SENT, ...dated && responseHeaders('Last-Modified') }
  const whole = response('All of it', { schema: {}, mediaTypes, headers })
  return readOperations({
    summary: 'Download, all or parts',
    parameters: [...parameters, ...READ],
    responses: {
      200: whole,
      206: response('The parts asked for', {
        schema: {}, mediaTypes: [...new Set([...mediaTypes, 'multipart/byteranges'])], headers: { ...headers, ...responseHeaders('Content-Range') },
      }),
      304: notModified,
      ...redirects && redirected,
      ...errorResponses(notFound, 'not_acceptable', 'precondition_failed', 'range_not_satisfiable'),
    },
  })
}
