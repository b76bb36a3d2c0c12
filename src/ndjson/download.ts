import { encodePieces, RESPONSE_CODINGS, type Piece } from '../http/body/encode.js'
import { httpError, notAcceptable, type HttpError } from '../http/errors.js'
import {
  describe, type Handler, type HttpRequest, type HttpResponse, type ResponseHeaders,
} from '../http/exchange.js'
import { negotiate, negotiateCoding } from '../http/headers/accept.js'
import { NDJSON_TYPES } from '../http/headers/ndjson-types.js'
import { addVary, stream, UNBUFFERED } from '../http/respond.js'
import { errorResponses } from '../openapi/responses.js'
import { operation, response, type Fragment } from '../openapi/operation.js'
import type { MaybePromise } from '../runtime/maybe-promise.js'
import { checkNames } from '../runtime/option-names.js'
import type { Schema } from '../schema/schema.js'
import { areMediaTypes, distinctTypes } from './media-type.js'
import { AsyncPieces, RecordText, syncPieces } from './record-text.js'
import { jsonSchemaOf, serialiser, type JsonSchema } from './serialiser.js'

/**
 * Source of records, single or in arrays: an iterable, an async iterable, or a stream of objects.
 */
export type RecordSource<T> = Iterable<T | readonly T[]> | AsyncIterable<T | readonly T[]>

/** Options of `ndjsonDownload`. */
export interface DownloadOptions<T = object, C = unknown> {
  /**
   * Opens the source for one request. An error that it throws is the response.
   *
   * It is also called for HEAD, which closes the source unread, so the source should be lazy.
   */
  readonly records: (request: HttpRequest<C>) => MaybePromise<RecordSource<T>>
  /**
   * Schema of a record: a JSON Schema, or a Standard Schema that can return its JSON Schema.
   * Properties that it does not name are **left out**. Default: `JSON.stringify`.
   *
   * It takes more CPU time than `JSON.stringify`: see `compileJson` of `longhaul/http`.
   */
  readonly schema?: Schema | JsonSchema
  /**
   * Content codings to offer, the best first; `[]` for none. Default: `zstd` where Node supports
   * it, `gzip`, `br`.
   */
  readonly codings?: readonly string[]
  /**
   * Media types of NDJSON to offer besides those in use, such as `['application/vnd.acme.users']`.
   * Default: none.
   */
  readonly moreMediaTypes?: readonly string[]
  /** More headers of the response, in lower case. Default: `Cache-Control: private, no-cache`. */
  readonly headers?: Readonly<ResponseHeaders>
}

const DOWNLOAD = {
  records: 0, schema: 0, codings: 0, moreMediaTypes: 0, headers: 0,
} satisfies Record<keyof DownloadOptions, 0>
const JSON_TYPE = 'application/json'
const VARY = 'Accept, Accept-Encoding'

/**
 * Creates a handler for GET and HEAD that streams records: one JSON object on each line, or one
 * JSON array for a client that prefers `application/json`. Offers all media types in use for NDJSON.
 * Fails with `not_acceptable` (406), which lists the types or codings that exist, and with the
 * errors of `records`.
 *
 * Memory stays flat, however many records there are and however slow the client is. Records are
 * sent in pieces of about 64 KiB, or after 50 ms. If the source fails, the connection is closed, so
 * that the client notices the truncation. If the client disconnects, the source is stopped. Arrays
 * of records and synchronous sources cost less CPU time than an async generator of single records.
 * @example
 * import { ndjsonDownload } from 'longhaul/ndjson'
 *
 * async function* users() {
 *   yield [{ id: 1 }, { id: 2 }]
 *   yield [{ id: 3 }]
 * }
 * export const download = ndjsonDownload({ records: () => users() })
 * @throws {TypeError} An option is unknown or not valid.
 */
export function ndjsonDownload<T extends object = object, C = unknown>(
  options: DownloadOptions<T, C>,
): Handler<C> {
  checkNames('ndjsonDownload', options, DOWNLOAD)
  const { codings = RESPONSE_CODINGS, moreMediaTypes = [], headers: ownHeaders } = options
  if (typeof options.records !== 'function') {
    throw new TypeError('ndjsonDownload: records must be a function that returns an iterable')
  }
  for (const coding of codings) {
    if (RESPONSE_CODINGS.includes(coding)) continue
    throw new TypeError(`ndjsonDownload: ${coding} is not one of ${RESPONSE_CODINGS.join(', ')}`)
  }
  if (!areMediaTypes(moreMediaTypes)) {
    throw new TypeError(
      'ndjsonDownload: moreMediaTypes must be an array of media types without parameters',
    )
  }
  const [first = '', ...others] = NDJSON_TYPES
  const offers = distinctTypes([first, JSON_TYPE], others, moreMediaTypes)
  const schema = options.schema && jsonSchemaOf('ndjsonDownload', options.schema)
  const stringify = serialiser<T>(schema)

  const handler = async (request: HttpRequest<C>): Promise<HttpResponse | undefined> => {
    if (request.method !== 'GET' && request.method !== 'HEAD') return undefined
    const type = negotiate(request.headers['accept'], offers)
    if (type === undefined) throw notAcceptable(offers, VARY)
    const coding = negotiateCoding(request.headers['accept-encoding'], codings)
    if (coding === undefined) throw noCoding(codings)
    const source = await options.records(request)
    const text = new RecordText(stringify, type === JSON_TYPE ? 'array' : 'lines')
    const headers = { 'cache-control': 'private, no-cache', ...UNBUFFERED, ...ownHeaders }
    const result = stream(200, bodyOf(source, text, coding), headers)
    result.headers['content-type'] = type
    if (coding !== 'identity') result.headers['content-encoding'] = coding
    addVary(result.headers, 'Accept', 'Accept-Encoding')
    return result
  }
  return describe(handler, ['GET', 'HEAD'].map((method) => operation(method, {
    summary: method === 'GET' ? 'Download records as NDJSON' : 'The headers of GET',
    responses: {
      200: bodyDescription(schema, offers), ...errorResponses('not_acceptable', 'internal_error'),
    },
  })))
}

/**
 * Serialises records as bytes of NDJSON, for a file or your own request. Closes the source if
 * the reader stops early. Rejects with the error of the source.
 * @example
 * import { createWriteStream } from 'node:fs'
 * import { pipeline } from 'node:stream/promises'
 *
 * const users = [{ id: 1 }, { id: 2 }]
 * await pipeline(ndjsonBytes(users), createWriteStream('users.ndjson'))
 * @throws {TypeError} An option is unknown or not valid.
 */
export function ndjsonBytes<T extends object>(
  source: RecordSource<T>, options: Pick<DownloadOptions, 'schema'> = {},
): AsyncIterableIterator<Uint8Array> {
  checkNames('ndjsonBytes', options, { schema: 0 })
  const schema = options.schema && jsonSchemaOf('ndjsonBytes', options.schema)
  const text = new RecordText(serialiser<T>(schema), 'lines')
  return bodyOf(source, text, 'identity')
}

function bodyOf<T>(
  source: RecordSource<T>, text: RecordText<T>, coding: string,
): AsyncIterableIterator<Uint8Array> {
  const pieces = piecesOf(source, text)
  const bytes = coding === 'identity' ? bytesOf(pieces) : encodePieces(pieces, coding)
  return {
    [Symbol.asyncIterator]() { return this },
    next: () => bytes.next(),
    // A generator that has not started, or waits for a slow source, would not close the source.
    return: async () => {
      await pieces.return?.()
      return bytes.return()
    },
  }
}

function piecesOf<T>(source: RecordSource<T>, text: RecordText<T>): AsyncIterableIterator<Piece> {
  if (Symbol.asyncIterator in source) return new AsyncPieces(source, text)
  if (Symbol.iterator in source) return syncPieces(source, text)
  throw new TypeError('ndjsonDownload: records must return an iterable or an async iterable')
}

async function* bytesOf(pieces: AsyncIterable<Piece>): AsyncGenerator<Uint8Array, void, undefined> {
  for await (const { bytes } of pieces) yield bytes
}

function noCoding(codings: readonly string[]): HttpError {
  const available = [...codings, 'identity'].join(', ')
  return httpError('not_acceptable', {
    message: `Accept-Encoding allows none of the available content codings: ${available}.`,
    headers: { vary: VARY },
  })
}

function bodyDescription(schema: JsonSchema | undefined, types: readonly string[]): Fragment {
  const line = schema ?? { type: 'object' }
  const lines = { type: 'string', description: `Each line: ${JSON.stringify(line)}` }
  const array = { type: 'array', items: line }
  return {
    ...response('The records'),
    content: Object.fromEntries(types.map((type) => (
      [type, { schema: type === JSON_TYPE ? array : lines }]
    ))),
  }
}
