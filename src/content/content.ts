import { httpError } from '../http/errors.js'
import { describe, type Handler, type HttpRequest, type HttpResponse } from '../http/exchange.js'
import { isFieldValue } from '../http/fields/reader.js'
import { checkNames } from '../runtime/option-names.js'
import type { MaybePromise } from '../runtime/maybe-promise.js'
import { answerContent, planDefaults, type AnswerPlan } from './answer.js'
import { knownCodings, type ContentCoding } from './coded.js'
import { contentOperations } from './operations.js'
import { checkSource, type ContentSource, type FindContent } from './source.js'

/** Options of `content`. */
export interface ContentOptions {
  /**
   * Content codings for clients that accept them, best first. They apply to content of 1 KiB or
   * more that is `compressible`. Each has its own entity tag. A request with Range gets uncompressed
   * content. `zstd` is left out where Node does not support it. Default: none.
   */
  readonly codings?: readonly ContentCoding[]
  /**
   * Returns `true` for media types that are worth compressing. Default: text, JSON, XML,
   * JavaScript, SVG and similar types.
   */
  readonly compressible?: (type: string) => boolean
  /**
   * Sends `Content-Disposition` (RFC 6266) with the source's `name`: `attachment` makes browsers
   * save it. Default: not sent.
   */
  readonly disposition?: 'inline' | 'attachment'
  /** A request for more parts than this gets all of it instead, 1 to 100. Default: 16. */
  readonly maxRanges?: number
  /**
   * The value of `Cache-Control`, on 200, 206 and 304. Default `private, no-cache`: caches that
   * users share keep nothing, because they do not see a session; a browser asks before it uses its
   * copy. For what everybody may see: `public, max-age=3600`.
   */
  readonly cacheControl?: string
}

const KNOWN = {
  codings: 0, compressible: 0, disposition: 0, maxRanges: 0, cacheControl: 0,
} satisfies Record<keyof ContentOptions, 0>

/**
 * Serves something that may be larger than memory to GET and HEAD. Clients can pause and resume:
 * 200, 206 for one range or several (`multipart/byteranges`), 416, 304 and 412. Conditions follow
 * RFC 9110 section 13.2.2. If-Range compares strongly, so a client with an old copy gets the whole
 * new one. Memory for each client is bounded by the source's chunks, however slow the client is. If
 * a source fails midway or returns too little, the connection is cut.
 *
 * Digests that the source brings are sent as `Repr-Digest`, and `Want-Repr-Digest` is honoured (RFC
 * 9530).
 *
 * `source` is one source, or a function that finds one for a request, such as
 * `folderSource('/srv/files')` of `longhaul/files`. If it finds none, the handler declines and the
 * host's next handler gets the request. Other methods are 405.
 *
 * @example
 * const find = ({ params }: HttpRequest) => blobSource(blobs, `report-${params['id']}`)
 * app.get('/reports/:id', toNode(content(find, { disposition: 'attachment' })))
 *
 * @throws {TypeError} The source or an option is not valid, or an option is unknown.
 */
export function content<C = unknown>(
  source: ContentSource | FindContent<C>, options: ContentOptions = {},
): Handler<C> {
  checkNames('content', options, KNOWN)
  const plan = planOf(options)
  if (typeof source !== 'function') checkSource(source)
  const find: FindContent<C> = typeof source === 'function' ? source : () => source
  const answer = (
    request: HttpRequest<C>, found: ContentSource | undefined,
  ): MaybePromise<HttpResponse | undefined> => {
    if (found === undefined) return undefined
    const { method } = request
    if (method !== 'GET' && method !== 'HEAD') {
      throw httpError('method_not_allowed', { headers: { allow: 'GET, HEAD' } })
    }
    return answerContent(request, found, plan)
  }
  return describe<C>((request) => {
    const found = find(request)
    return found instanceof Promise
      ? found.then((late) => answer(request, late))
      : answer(request, found)
  }, contentOperations(typeof source === 'function' ? undefined : source.type))
}

function planOf(options: ContentOptions): AnswerPlan {
  const { codings = [], disposition } = options
  const {
    maxRanges = planDefaults.maxRanges,
    cacheControl = planDefaults.cacheControl,
    compressible = planDefaults.compressible,
  } = options
  if (!Number.isInteger(maxRanges) || maxRanges < 1 || maxRanges > 100) {
    throw new TypeError(`maxRanges must be a whole number from 1 to 100, not ${String(maxRanges)}`)
  }
  if (!isFieldValue(cacheControl)) throw new TypeError('cacheControl cannot be sent in a header')
  if (disposition !== undefined && disposition !== 'inline' && disposition !== 'attachment') {
    throw new TypeError(
      `disposition must be 'inline' or 'attachment', not ${JSON.stringify(disposition)}`
    )
  }
  return { codings: knownCodings(codings), compressible, disposition, maxRanges, cacheControl }
}
