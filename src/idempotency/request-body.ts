import { isParsedLarger } from '../http/body/body.js'
import { httpError, type HttpError } from '../http/errors.js'
import type { BodySource, HttpRequest } from '../http/exchange.js'
import { isTooDeep } from '../http/body/json-value.js'
import { parseMediaType } from '../http/fields/media-type.js'
import { digestOf } from './digest.js'
import { fingerprintOf } from './fingerprint.js'

/** A request whose body was read, to be told from other requests with the same key. */
export interface ReadRequest {
  readonly fingerprint: string
  /** The body again, for the handler. */
  readonly body: BodySource
}

/**
 * Reads the body of a request, and takes its fingerprint: of the query, the media type, and the
 * body. JSON counts by its values, so the order of members and the spaces do not matter. Anything
 * else counts by its bytes as sent.
 *
 * @throws {HttpError} 413 `body_too_large`
 */
export async function readRequest(
  request: HttpRequest<unknown>, maxBytes: number,
): Promise<ReadRequest> {
  const { body } = request
  const content = body.parsed ? ofParsed(body.parsed.value) : undefined
  if (body.parsed && !isTooDeep(body.parsed.value) && isParsedLarger(body.parsed.value, request.headers, maxBytes)) throw tooLarge(maxBytes)
  if (content !== undefined) {
    return { fingerprint: fingerprintOf([...aboutOf(request), content]), body }
  }
  const bytes = await body.bytes(maxBytes)
  if (bytes === undefined) throw tooLarge(maxBytes)
  return { fingerprint: fingerprintOf([...aboutOf(request), ofBytes(request, bytes)]), body: new ReadBody(bytes) }
}

function tooLarge(maxBytes: number): HttpError {
  return httpError('body_too_large', { message: `With an Idempotency-Key the body may have ${maxBytes} bytes at the most.` })
}

/** The query and the media type. */
function aboutOf(request: HttpRequest<unknown>): readonly unknown[] {
  return [request.search ?? request.query.toString(), mediaTypeOf(request) ?? null]
}

function mediaTypeOf({ headers }: HttpRequest<unknown>): string | undefined {
  const field = headers['content-type']
  return typeof field === 'string' ? parseMediaType(field)?.type : undefined
}

function ofParsed(value: unknown): unknown {
  if (typeof value === 'string' || value instanceof Uint8Array) return digestOf(value)
  return { json: value }
}

function ofBytes(request: HttpRequest<unknown>, bytes: Uint8Array): unknown {
  const type = mediaTypeOf(request) ?? 'application/json'
  const coding = request.headers['content-encoding'] ?? 'identity'
  if (coding !== 'identity' || !(type === 'application/json' || type.endsWith('+json'))) {
    return digestOf(bytes)
  }
  try {
    return { json: JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString()) as unknown }
  } catch {
    // The handler says what is wrong with it.
    return digestOf(bytes)
  }
}

/** A body that is in memory already. */
class ReadBody implements BodySource {
  readonly parsed = undefined
  readonly #bytes: Uint8Array

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes
  }

  async bytes(limit: number): Promise<Uint8Array | undefined> {
    return this.#bytes.byteLength > limit ? undefined : this.#bytes
  }

  async* stream(): AsyncGenerator<Uint8Array, void, undefined> {
    if (this.#bytes.byteLength > 0) yield this.#bytes
  }
}
