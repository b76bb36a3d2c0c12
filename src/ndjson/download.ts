import { negotiate, negotiateCoding } from '../http/fields/accept.js'
import { encodePieces, RESPONSE_CODINGS, type Piece } from '../http/body/encode.js'
import { httpError } from '../http/errors.js'
import {
  describe, type Handler, type HttpRequest, type HttpResponse, type ResponseHeaders,
} from '../http/exchange.js'
import type { MaybePromise } from '../runtime/maybe-promise.js'
import { addVary } from '../http/fields/fields.js'
import { checkNames } from '../runtime/option-names.js'
import { compileJson } from '../http/body/compile-json.js'
import { stream } from '../http/respond.js'
import { errorResponses } from '../openapi/errors.js'
import { fields } from '../openapi/fields.js'
import { operation, response, type Fragment } from '../openapi/operation.js'
import { isSchema, type Schema } from '../schema/schema.js'
import { toJsonSchema } from '../schema/to-json-schema.js'
import { AsyncPieces } from './async-pieces.js'
import { LineText, type Layout } from './line-text.js'
import { NDJSON_TYPE } from './media-type.js'
import { syncPieces } from './sync-pieces.js'

/**
 * Records, one by one or in arrays: what is at hand, what comes by and by, a Node stream in object
 * mode, a web stream.
 */
export type RecordSource<T> = Iterable<T | readonly T[]> | AsyncIterable<T | readonly T[]>

/** What a download may be told. */
export interface DownloadOptions<T = object, C = unknown> {
  /**
   * Opens the source for one request. For HEAD too, which closes it unread: let it be lazy. What it
   * throws is the answer.
   */
  readonly records: (request: HttpRequest<C>) => MaybePromise<RecordSource<T>>
  /**
   * What a record looks like: a JSON Schema, or a Standard Schema that can tell its JSON Schema.
   * Records are then written by a compiled serialiser, some twice as fast for small flat ones,
   * which **leaves out what the schema does not name**. Default: `JSON.stringify`.
   */
  readonly record?: Schema | Readonly<Record<string, unknown>>
  /**
   * Content codings to offer, best first. Default: `zstd` where Node has it, `gzip`, `br`; `[]` for
   * none.
   */
  readonly codings?: readonly string[]
  /**
   * Further header fields of the answer, by lower-case name. Default: `Cache-Control: private,
   * no-cache`.
   */
  readonly headers?: Readonly<ResponseHeaders>
}

const KNOWN = { records: 0, record: 0, codings: 0, headers: 0 } satisfies Record<keyof DownloadOptions, 0>
const OFFERS = [NDJSON_TYPE, 'application/json']

/**
 * A handler for GET and HEAD that streams records (SPEC 4.9): one JSON object a line, also without
 * an Accept field or with `*`/`*`, or as a JSON array for a client that prefers `application/json`.
 * Fails with `not_acceptable` (406), and with what `records` throws.
 *
 * Memory stays flat whatever the size and however slow the client: records are asked for when there
 * is room. They go out in pieces of some 64 KiB, or after 50 ms. Arrays of records, and sources
 * that are synchronous, cost half of an async generator of single records. A source that fails
 * midway cuts the connection, so that nobody takes the part for the whole; a client that leaves
 * stops the source within a piece.
 *
 * @throws {TypeError} when an option makes no sense
 */
export function ndjsonDownload<T extends object = object, C = unknown>(options: DownloadOptions<T, C>): Handler<C> {
  checkNames('ndjsonDownload', options, KNOWN)
  const { codings = RESPONSE_CODINGS, headers: own } = options
  if (typeof options.records !== 'function') throw new TypeError('ndjsonDownload: records must be a function that gives an iterable')
  for (const coding of codings) {
    if (!RESPONSE_CODINGS.includes(coding)) throw new TypeError(`ndjsonDownload: ${coding} is not one of ${RESPONSE_CODINGS.join(', ')}`)
  }
  const schema = options.record && jsonSchemaOf(options.record)
  const stringify: (record: T) => string | undefined = schema ? compileJson(schema) : JSON.stringify

  const handler = async (request: HttpRequest<C>): Promise<HttpResponse | undefined> => {
    if (request.method !== 'GET' && request.method !== 'HEAD') return undefined
    const type = negotiate(request.headers['accept'], OFFERS)
    const coding = negotiateCoding(request.headers['accept-encoding'], codings)
    if (type === undefined || coding === undefined) throw httpError('not_acceptable', { headers: { vary: 'Accept, Accept-Encoding' } })
    const source = await options.records(request)
    const body = bodyOf(source, new LineText(stringify, type === NDJSON_TYPE ? 'lines' : 'array'), coding)
    const answer = stream(200, body, { 'cache-control': 'private, no-cache', ...own })
    answer.headers['content-type'] = type
    if (coding !== 'identity') answer.headers['content-encoding'] = coding
    addVary(answer.headers, 'Accept', 'Accept-Encoding')
    return answer
  }
  return describe(handler, ['GET', 'HEAD'].map((method) => operation(method, {
    summary: method === 'GET' ? 'Download records as NDJSON' : 'The header fields of GET',
    responses: { 200: described(schema), ...errorResponses('not_acceptable', 'internal_error') },
  })))
}

/**
 * The same as bytes, for what is not an answer: a file, a request of your own. NDJSON, or one JSON
 * array. What is not read on is closed. Rejects with what the source fails with.
 */
export function ndjsonBytes<T extends object>(
  source: RecordSource<T>, options: { readonly layout?: Layout; readonly record?: DownloadOptions['record'] } = {},
): AsyncIterableIterator<Uint8Array> {
  checkNames('ndjsonBytes', options, { layout: 0, record: 0 })
  const stringify: (record: T) => string | undefined = options.record ? compileJson(jsonSchemaOf(options.record)) : JSON.stringify
  return bodyOf(source, new LineText(stringify, options.layout ?? 'lines'), 'identity')
}

function bodyOf<T>(source: RecordSource<T>, text: LineText<T>, coding: string): AsyncIterableIterator<Uint8Array> {
  const pieces = piecesOf(source, text)
  const bytes = coding === 'identity' ? bytesOf(pieces) : encodePieces(pieces, coding)
  return {
    [Symbol.asyncIterator]() { return this },
    next: () => bytes.next(),
    // A generator that has not begun, or waits for a slow source, would not pass this on.
    return: async () => {
      await pieces.return?.()
      return bytes.return()
    },
  }
}

function piecesOf<T>(source: RecordSource<T>, text: LineText<T>): AsyncIterableIterator<Piece> {
  if (Symbol.asyncIterator in source) return new AsyncPieces(source, text)
  if (Symbol.iterator in source) return syncPieces(source, text)
  throw new TypeError('ndjsonDownload: records must give an iterable or an async iterable of records')
}

async function* bytesOf(pieces: AsyncIterable<Piece>): AsyncGenerator<Uint8Array, void, undefined> {
  for await (const { bytes } of pieces) yield bytes
}

function jsonSchemaOf(record: Schema | Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const schema = isSchema(record) ? toJsonSchema(record, 'output') : record
  if (schema === undefined) throw new TypeError('ndjsonDownload: this schema can not tell its JSON Schema; pass a JSON Schema object as record')
  return schema
}

function described(schema: Readonly<Record<string, unknown>> | undefined): Fragment {
  const line = schema ?? { type: 'object' }
  return {
    ...response('The records', { headers: fields('Vary', 'Cache-Control') }),
    content: {
      [NDJSON_TYPE]: { schema: { type: 'string', description: `Each line: ${JSON.stringify(line)}` } },
      'application/json': { schema: { type: 'array', items: line } },
    },
  }
}
