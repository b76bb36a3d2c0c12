import { randomBytes } from 'node:crypto'
import { encodePieces, type Piece } from '../http/body/encode.js'
import { httpError, notAcceptable } from '../http/errors.js'
import type {
  HttpRequest, HttpResponse, RequestHeaders, ResponseHeaders,
} from '../http/exchange.js'
import { negotiate, negotiateCoding } from '../http/headers/accept.js'
import { httpDate } from '../http/headers/dates.js'
import {
  digestHeader, isDigest, parseWantedDigests, type DigestAlgorithm,
} from '../http/headers/digests.js'
import { evaluatePreconditions, ifRangeHolds } from '../http/headers/preconditions.js'
import { contentRange, selectRanges, type Range } from '../http/headers/range.js'
import { checkSource, notADigest, readPart, type ContentSource } from './source.js'

export type ContentCoding = 'gzip' | 'br' | 'zstd'

export interface ContentPlan {
  readonly codings: readonly ContentCoding[]
  readonly compressible: (type: string) => boolean
  readonly disposition?: 'inline' | 'attachment'
  readonly cacheControl: string
}

export const CODINGS: readonly unknown[] = ['gzip', 'br', 'zstd'] satisfies ContentCoding[]
/** Smaller content is not worth a coding. */
const WORTH_CODING = 1024
const TEXT = /^(?:text\/|application\/(?:json|xml|javascript|wasm|(?:x-)?ndjson|(?:x-)?jsonl(?:ines)?|graphql|sql|toml|yaml|rtf)\b|image\/(?:svg|bmp)|[a-z]+\/[^;]*\+(?:json|xml)\b)/i
/** Characters that an extended parameter holds unencoded (RFC 8187 section 3.2.1). */
const ATTRIBUTE_CHARS = new Set('!#$&+-.^_`|~')

export async function respond(
  request: HttpRequest<unknown>, source: ContentSource, plan: ContentPlan,
): Promise<HttpResponse> {
  checkSource(source)
  const { method, headers: asked } = request
  const { size, type = 'application/octet-stream', lastModified } = source
  const accept = asked['accept']
  if (accept !== undefined && negotiate(accept, [type.split(';', 1)[0] as string]) === undefined) {
    throw notAcceptable([type])
  }
  const varies = plan.codings.length > 0 && size >= WORTH_CODING && plan.compressible(type)
  // Ranges are ranges of the content without a coding.
  const isPart = method === 'GET' && asked['range'] !== undefined
  const chosen = varies && !isPart && negotiateCoding(asked['accept-encoding'], plan.codings)
  const coding = chosen && chosen !== 'identity' ? chosen : undefined
  // Compressed content has its own tag.
  const etag = coding && source.etag ? `${source.etag.slice(0, -1)}-${coding}"` : source.etag
  const now = Date.now()

  const headers: ResponseHeaders = { 'cache-control': plan.cacheControl }
  if (etag !== undefined) headers['etag'] = etag
  if (varies) headers['vary'] = 'Accept-Encoding'

  const facts = { method, headers: asked, exists: true, etag, lastModified }
  const outcome = evaluatePreconditions(facts)
  if (outcome === 'failed') {
    throw httpError('precondition_failed', etag === undefined ? {} : { headers: { etag } })
  }
  // RFC 9110 section 8.8.2.1: never later than the response itself.
  const changed = lastModified === undefined ? undefined : httpDate(Math.min(lastModified, now))
  if (outcome === 'not-modified') {
    if (etag === undefined && changed !== undefined) headers['last-modified'] = changed
    return { status: 304, headers }
  }
  if (changed !== undefined) headers['last-modified'] = changed
  headers['content-type'] = type
  const disposition = plan.disposition && contentDisposition(plan.disposition, source.name)
  if (disposition !== undefined) headers['content-disposition'] = disposition
  if (coding !== undefined) {
    headers['content-encoding'] = coding
    if (method === 'HEAD') return { status: 200, headers }
    return { status: 200, headers, body: encodePieces(pieces(readPart(source, 0, size)), coding) }
  }
  return respondUncoded(request, source, plan, { headers, isPart, type, disposition, now })
}

interface Selected {
  /** Headers so far. */
  readonly headers: ResponseHeaders
  /** `true` if the request may ask for ranges. */
  readonly isPart: boolean
  readonly type: string
  readonly disposition: string | undefined
  /** Time of the response, in milliseconds since 1970. */
  readonly now: number
}

/** Responds with content without a coding: the whole, some ranges, or a redirect to another server. */
async function respondUncoded(
  { method, headers: asked }: HttpRequest<unknown>, source: ContentSource, plan: ContentPlan,
  { headers, isPart, type, disposition, now }: Selected,
): Promise<HttpResponse> {
  const { size, etag, lastModified } = source
  headers['accept-ranges'] = 'bytes'
  const isWhole = !isPart || !ifRangeHolds({ headers: asked, etag, lastModified }, now)
  const ranges = isWhole ? 'whole' : selectRanges(asked['range'], size)
  if (ranges === 'unsatisfiable') {
    throw httpError('range_not_satisfiable', {
      headers: { 'content-range': contentRange(undefined, size), 'accept-ranges': 'bytes' },
    })
  }
  // Middleware and proxies that compress a part would make other bytes of it.
  const cacheControl = isPart ? noTransform(plan.cacheControl) : plan.cacheControl
  // Other servers may ignore If-Range, and several ranges.
  const isPlain = !isPart || (ranges !== 'whole' && ranges.length === 1)
  if (source.link && method === 'GET' && isPlain) {
    const location = await source.link({ type, disposition, cacheControl })
    // A stored redirect would outlive the URL, and skip the check of the owner.
    return { status: 307, headers: { location, 'cache-control': 'no-store' } }
  }
  const digest = await reprDigestOf(source, asked)
  if (digest !== undefined) headers['repr-digest'] = digest
  if (ranges === 'whole') {
    headers['content-length'] = String(size)
    if (method === 'HEAD') return { status: 200, headers }
    return { status: 200, headers, body: size === 0 ? '' : readPart(source, 0, size) }
  }
  headers['cache-control'] = cacheControl
  const [first] = ranges
  if (ranges.length === 1 && first !== undefined) {
    headers['content-range'] = contentRange(first, size)
    headers['content-length'] = String(first.end - first.start)
    return { status: 206, headers, body: readPart(source, first.start, first.end) }
  }
  return multipart(source, type, ranges, headers)
}

function noTransform(cacheControl: string): string {
  return /(?:^|,)\s*no-transform\s*(?:,|$)/i.test(cacheControl) ? cacheControl
    : [cacheControl, 'no-transform'].filter((each) => each !== '').join(', ')
}

/** Responds with several parts as multipart/byteranges (RFC 9110 section 14.6). */
function multipart(
  source: ContentSource, type: string, ranges: readonly Range[], headers: ResponseHeaders,
): HttpResponse {
  // 128 random bits do not occur in the content.
  const boundary = randomBytes(16).toString('hex')
  const parts = ranges.map((range, index) => {
    const head = `${index === 0 ? '' : '\r\n'}--${boundary}\r\nContent-Type: ${type}\r\n`
      + `Content-Range: ${contentRange(range, source.size)}\r\n\r\n`
    return { ...range, head: Buffer.from(head, 'latin1') }
  })
  const end = Buffer.from(`\r\n--${boundary}--\r\n`)
  const length = parts.reduce((sum, part) => sum + part.head.length + part.end - part.start, 0)
  headers['content-type'] = `multipart/byteranges; boundary=${boundary}`
  headers['content-length'] = String(length + end.length)
  const body = async function* (): AsyncGenerator<Uint8Array, void, undefined> {
    for (const part of parts) {
      // The head of a part waits for its first bytes, so that a source that fails at once is
      // gets an error.
      let head: Uint8Array | undefined = part.head
      for await (const chunk of readPart(source, part.start, part.end)) {
        if (head !== undefined) yield head
        head = undefined
        yield chunk
      }
    }
    yield end
  }
  return { status: 206, headers, body: body() }
}

async function* pieces(content: AsyncIterable<Uint8Array>): AsyncGenerator<Piece, void, undefined> {
  for await (const bytes of content) yield { bytes, flush: false }
}

export function isCompressible(type: string): boolean {
  return TEXT.test(type)
}

/** Returns the value of `Repr-Digest` (RFC 9530 section 3); `undefined` if there is none. */
async function reprDigestOf(
  source: ContentSource, headers: RequestHeaders,
): Promise<string | undefined> {
  const { digests = {} } = source
  const { wanted, refused } = parseWantedDigests(headers['want-repr-digest'])
  const best = wanted.find((name) => digests[name] !== undefined)
  if (best !== undefined) return digestHeader({ [best]: digests[best] })
  const names = Object.keys(digests) as DigestAlgorithm[]
  const rest = names.filter((name) => !refused.includes(name))
  const known = digestHeader(Object.fromEntries(rest.map((name) => [name, digests[name]])))
  const [algorithm] = wanted
  if (known !== '' || algorithm === undefined) return known || undefined
  const computed = await source.digest?.(algorithm)
  if (computed === undefined) return undefined
  if (!isDigest(algorithm, computed)) throw notADigest(algorithm)
  return digestHeader({ [algorithm]: computed })
}

/** Returns the value of Content-Disposition (RFC 6266). */
export function contentDisposition(
  kind: 'inline' | 'attachment', name: string | undefined,
): string {
  const base = (name?.split(/[/\\]/).at(-1) ?? '').replaceAll(/\p{Cc}/gu, '').toWellFormed()
  if (base === '') return kind
  const plain = base.replaceAll(/[^\x20-\x7e]/gu, '?')
  // `%` in a quoted name is decoded by some clients and not by others.
  const quoted = `${kind}; filename="${plain.replaceAll('%', '_').replaceAll('"', '\\"')}"`
  return plain === base && !base.includes('%') ? quoted
    : `${quoted}; filename*=UTF-8''${extended(base)}`
}

function extended(text: string): string {
  let value = ''
  for (const byte of Buffer.from(text)) {
    const char = String.fromCharCode(byte)
    const plain = byte < 0x80 && (/[A-Za-z0-9]/.test(char) || ATTRIBUTE_CHARS.has(char))
    value += plain ? char : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`
  }
  return value
}
