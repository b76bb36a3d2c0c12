import { negotiate, negotiateCoding } from '../http/fields/accept.js'
import { httpError } from '../http/errors.js'
import type { HttpRequest, HttpResponse, ResponseHeaders } from '../http/exchange.js'
import { httpDate } from '../http/fields/dates.js'
import { evaluatePreconditions, ifRangeHolds } from '../http/fields/preconditions.js'
import { contentRange, selectRanges, type Ranges } from '../http/fields/range.js'
import type { MaybePromise } from '../runtime/maybe-promise.js'
import { ByteRanges } from './byteranges.js'
import { coded, codedEtag, isCompressible, type ContentCoding } from './coded.js'
import { contentDisposition } from './disposition.js'
import { reprDigestOf } from './repr-digest.js'
import { checkSource, readPart, type ContentSource } from './source.js'

/** Settings of the answers; see `ContentOptions`. */
export interface AnswerPlan {
  readonly codings: readonly ContentCoding[]
  readonly compressible: (type: string) => boolean
  readonly disposition: 'inline' | 'attachment' | undefined
  readonly maxRanges: number
  readonly cacheControl: string
}

const OCTETS = 'application/octet-stream'
/** Less than this is not worth a coding. */
const WORTH_CODING = 1024

/**
 * Answers GET or HEAD of one source: conditions first, then Range, then all of it (RFC 9110 section
 * 13.2.2). Returns a promise only if a digest has to be computed.
 */
export function answerContent(
  request: HttpRequest, source: ContentSource, plan: AnswerPlan,
): MaybePromise<HttpResponse> {
  checkSource(source)
  const { method, headers: asked } = request
  const { size, type = OCTETS, lastModified } = source
  const accepted = asked['accept']
  const isAccepted = accepted === undefined || accepted === '*/*'
    || negotiate(accepted, [type.split(';', 1)[0] as string]) !== undefined
  if (!isAccepted) {
    throw httpError('not_acceptable', { headers: { vary: 'Accept' } })
  }
  const varies = plan.codings.length > 0 && size >= WORTH_CODING && plan.compressible(type)
  // Parts are parts of the identity, so what they are held against is its tag.
  const partial = method === 'GET' && asked['range'] !== undefined
  const coding = varies && !partial
    ? negotiateCoding(asked['accept-encoding'], plan.codings)
    : undefined
  const wanted = coding === undefined || coding === 'identity' ? undefined : coding as ContentCoding
  const etag = wanted === undefined ? source.etag : codedEtag(source.etag, wanted)
  const now = Date.now()

  const headers: ResponseHeaders = { 'cache-control': plan.cacheControl }
  if (etag !== undefined) headers['etag'] = etag
  if (varies) headers['vary'] = 'Accept-Encoding'

  const outcome = evaluatePreconditions({
    method, headers: asked, exists: true, etag, lastModified,
  })
  if (outcome === 'failed') {
    throw httpError('precondition_failed', etag === undefined ? {} : { headers: { etag } })
  }
  // RFC 9110 section 8.8.2.1: never later than the answer itself.
  const changed = lastModified === undefined ? undefined : httpDate(Math.min(lastModified, now))
  if (outcome === 'not-modified') {
    if (etag === undefined && changed !== undefined) headers['last-modified'] = changed
    return { status: 304, headers }
  }
  if (changed !== undefined) headers['last-modified'] = changed
  headers['content-type'] = type
  if (plan.disposition !== undefined) {
    headers['content-disposition'] = contentDisposition(plan.disposition, source.name)
  }
  if (wanted !== undefined) {
    headers['content-encoding'] = wanted
    if (method === 'HEAD') return { status: 200, headers }
    return { status: 200, headers, body: coded(readPart(source, 0, size), wanted) }
  }

  headers['accept-ranges'] = 'bytes'
  const whole = !partial || !ifRangeHolds({ headers: asked, etag, lastModified }, now)
  const ranges = whole ? 'whole' : selectRanges(asked['range'], size, plan)
  if (ranges === 'unsatisfiable') {
    throw httpError('range_not_satisfiable', {
      headers: { 'content-range': contentRange(undefined, size), 'accept-ranges': 'bytes' },
    })
  }
  const digest = reprDigestOf(source, asked)
  if (digest instanceof Promise) return withLateDigest(digest, method, source, ranges, headers)
  if (digest !== undefined) headers['repr-digest'] = digest
  return withParts(method, source, ranges, headers)
}

/** A function of its own, so that requests without a digest pay for no closure. */
async function withLateDigest(
  late: Promise<string | undefined>, ...rest: Parameters<typeof withParts>
): Promise<HttpResponse> {
  const digest = await late
  const [,,, headers] = rest
  if (digest !== undefined) headers['repr-digest'] = digest
  return withParts(...rest)
}

function withParts(
  method: string, source: ContentSource, ranges: Exclude<Ranges, 'unsatisfiable'>,
  headers: ResponseHeaders,
): HttpResponse {
  const { size } = source
  const [first] = ranges
  if (ranges === 'whole' || first === undefined || typeof first === 'string') {
    headers['content-length'] = String(size)
    if (method === 'HEAD') return { status: 200, headers }
    return { status: 200, headers, body: size === 0 ? '' : readPart(source, 0, size) }
  }
  if (ranges.length === 1) {
    headers['content-range'] = contentRange(first, size)
    headers['content-length'] = String(first.end - first.start)
    return { status: 206, headers, body: readPart(source, first.start, first.end) }
  }
  const parts = new ByteRanges(source, headers['content-type'] as string, ranges)
  headers['content-type'] = parts.type
  headers['content-length'] = String(parts.length)
  return { status: 206, headers, body: parts.read() }
}

export const planDefaults: AnswerPlan = {
  codings: [], compressible: isCompressible, disposition: undefined, maxRanges: 16, cacheControl: 'private, no-cache',
}
