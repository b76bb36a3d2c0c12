import { isParsedLarger } from '../http/body/body.js'
import { CountedBody } from '../http/body/counted-body.js'
import { httpError, type HttpError } from '../http/errors.js'
import type { BodySource, HttpRequest } from '../http/exchange.js'
import { isTooDeep } from '../http/body/json.js'
import { parseMediaType } from '../http/fields/accept.js'
import { digestOf } from './digest.js'
import { fingerprintOf } from './fingerprint.js'

/** A request whose body was read, and its fingerprint. */
export interface ReadRequest {
  readonly fingerprint: string
  /** The body, for the handler. */
  readonly body: BodySource
}

/**
 * Reads the body of a request and returns its fingerprint: of the query, the media type and the
 * body. JSON is compared by its values, so the order of members and white space do not matter.
 * Other bodies are compared by their bytes as sent.
 *
 * @throws {HttpError} 413 `body_too_large`, 429 `too_many_requests`, 503 `overloaded`
 */
export async function readRequest(
  request: HttpRequest<unknown>, maxBytes: number,
): Promise<ReadRequest> {
  const { body } = request
  const content = body.parsed ? ofParsed(body.parsed.value) : undefined
  if (body.parsed && !isTooDeep(body.parsed.value)) {
    const isTooLarge = isParsedLarger(body.parsed.value, request.headers, maxBytes)
    if (isTooLarge) throw tooLarge(maxBytes)
  }
  if (content !== undefined) {
    return { fingerprint: fingerprintOf([...aboutOf(request), content]), body }
  }
  const bytes = await body.bytes(maxBytes)
  if (bytes === undefined) throw tooLarge(maxBytes)
  const counted = body instanceof CountedBody ? body : undefined
  await counted?.waitToParse(bytes.byteLength, request)
  const fingerprint = fingerprintOf([...aboutOf(request), ofBytes(request, bytes)])
  counted?.releaseJson()
  return { fingerprint, body: counted ?? new ReadBody(bytes) }
}

function tooLarge(maxBytes: number): HttpError {
  const message = `With an Idempotency-Key the body may have ${maxBytes} bytes at the most.`
  return httpError('body_too_large', { message })
}

/** Returns the query and the media type. */
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
    const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString()
    return { json: JSON.parse(text) as unknown }
  } catch {
    // The handler reports the fault.
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
