import { bodyCoding } from '../http/body/decode.js'
import { bodyTooLarge } from '../http/errors.js'
import type { Handler, HttpRequest, Operation } from '../http/exchange.js'
import { negotiate } from '../http/headers/accept.js'
import { NDJSON_TYPES } from '../http/headers/ndjson-types.js'
import { errorResponses, responseHeaders, headerParameters } from '../openapi/responses.js'
import {
  addResponseHeaders, body, type Fragment, operation, response, schemaObject,
} from '../openapi/operation.js'
import {
  backgroundEndpoint, recordHandler, type BackgroundEndpoint, type RecordWork,
} from '../records/background.js'
import { reportSchema } from '../records/http.js'
import type { Schema } from '../schema/schema.js'
import { accepted } from '../tasks/http/operations.js'
import { checkMediaType } from './media-type.js'
import {
  readUploadOptions, type UploadAsked, type UploadBackgroundOptions, type UploadOptions,
  type UploadSettings, type UploadTask,
} from './upload-options.js'
import { directUpload, JSON_TYPE, respondDirect, respondForKey } from './upload-respond.js'
import { uploadTask } from './upload-task.js'

/** An upload that can be read in the background. Returned by `ndjsonUpload`. */
export type BackgroundUpload = BackgroundEndpoint<UploadTask>

/**
 * Creates a handler for POST that reads records as NDJSON. Its memory does not grow with the number
 * of records. Each line is one JSON object; a line that is not valid is skipped and counted. Bodies
 * may be coded with gzip, deflate, br, and zstd where Node supports it. `source` reads other
 * formats.
 *
 * Without `background` the result is the handler. With `background` it has two parts: `task` for
 * `createTasks`, and `handler(endpoints)` for the router. For a request with `Prefer:
 * respond-async`, the body is stored in blobs, the client gets a 202, and the task reads the body.
 *
 * The response is 200 `{ message, summary: { total, succeeded, failed }, items: [{ line, status,
 * error: { code, message, excerpt, details? } }] }` with the first failed lines, even if every line
 * failed. A client that accepts `application/x-ndjson` gets one line for each record during the
 * upload, `{ line, status, id?, error? }`, and must read while it sends. The last line is `{
 * message, summary }`, or `{ error, code, summary }` if the upload ended early.
 *
 * With `background`, requests may have an Idempotency-Key. A synchronous upload with a key runs
 * once: a later request with the key gets the same response, even if that is an error with the
 * report of the records that were written. Uploads that continue after a broken connection need
 * `resumableUpload` of `longhaul/uploads`. Without `background` a request with a key gets 400
 * `idempotency_not_supported`, unless the policy `idempotent()` runs first.
 *
 * Fails with `unsupported_media_type` and `unsupported_content_coding` (415), `body_too_large`
 * (413), `malformed_coding` and `incomplete_body` (400), and with the errors of `write`. If records
 * were written before, the error body has `summary` and `items`. Nothing is rolled back.
 * @example
 * import { router } from 'longhaul'
 * import { ndjsonUpload } from 'longhaul/ndjson'
 *
 * const upload = ndjsonUpload({
 *   write: async (users) => { console.log(`${users.length} users`) },
 * })
 * export const handler = router({ 'POST /users': upload })
 * @throws {TypeError} An option is unknown or not valid.
 */
export function ndjsonUpload<T = object, C = unknown>(
  options: UploadOptions<T> & { readonly background?: undefined },
): Handler<C>
export function ndjsonUpload<T = object>(
  options: UploadOptions<T> & { readonly background: UploadBackgroundOptions },
): BackgroundUpload
export function ndjsonUpload<T>(options: UploadOptions<T>): BackgroundUpload | Handler {
  const settings = readUploadOptions(options)
  const { background, schema, mediaTypes } = settings
  const work: RecordWork<UploadAsked> = {
    where: 'ndjsonUpload', method: 'POST',
    ask: (request) => ({
      coding: checkHead(request, settings),
      resultType: negotiate(request.headers['accept'], OFFERS) ?? JSON_TYPE,
      isDry: settings.dryRun?.(request) === true,
    }),
    respond: ({ request, asked, owner, tenant, context, once, accept }) => {
      // Only a stored body can be read twice.
      if (accept !== undefined && settings.checkFirst && !asked.isDry) return accept()
      const upload = directUpload(request, settings, asked, { owner, tenant, context })
      if (once !== undefined) return respondForKey(upload, request, once)
      return respondDirect(upload, request.body.stream(), request.signal)
    },
    operation: (hasBackground) => uploadOperation(schema, hasBackground, mediaTypes),
  }
  return background === undefined
    ? recordHandler(work) : backgroundEndpoint(work, uploadTask(settings, background))
}

/** A client that accepts any text does not expect results before it has sent the body. */
const LINES = NDJSON_TYPES.filter((type) => !type.startsWith('text/'))
const OFFERS = [JSON_TYPE, ...LINES]

function checkHead(
  request: HttpRequest<unknown>,
  { maxBodyBytes, mediaTypes }: Pick<UploadSettings<unknown>, 'maxBodyBytes' | 'mediaTypes'>,
): string {
  const { headers } = request
  checkMediaType(headers, mediaTypes)
  const coding = bodyCoding(request)
  if (Number(headers['content-length']) > maxBodyBytes) throw bodyTooLarge(maxBodyBytes)
  return coding
}

const OF_KEY = responseHeaders('Idempotency-Key', 'Idempotent-Replayed', 'Retry-After')

const OF_BACKGROUND = [
  'unauthorized', 'idempotency_needs_async', 'invalid_idempotency_key', 'idempotent_request_running',
  'idempotency_key_reused', 'too_many_bytes',
] as const

export function uploadOperation(
  schema: Schema | undefined, background: boolean, mediaTypes: readonly string[] = NDJSON_TYPES,
): Operation {
  const line = JSON.stringify(schema ? schemaObject(schema) : { type: 'object' })
  const done = response('All lines were read; some may have failed', {
    schema: reportSchema('line', 'The first failed lines'),
  })
  const lines: Fragment = {
    type: 'string',
    description: 'A line for each record, `{ line, status, id?, error? }`, and at last '
      + '`{ message, summary }`',
  }
  const described = operation('POST', {
    summary: 'Upload records as NDJSON',
    description: 'One JSON object a line; a line that is none is skipped and counted. '
      + 'The body may be coded (Content-Encoding).',
    parameters: [
      ...background ? [headerParameters.prefer, headerParameters.idempotencyKey] : [],
      headerParameters.contentDigest,
    ],
    requestBody: body({ type: 'string', description: `Each line: ${line}` }, { mediaTypes }),
    responses: {
      200: {
        ...done,
        content: {
          ...done['content'] as Fragment,
          ...Object.fromEntries(LINES.map((type) => [type, { schema: lines }])),
        },
      },
      ...background && { 202: accepted('Accepted: the upload is read in the background') },
      ...errorResponses(
        'incomplete_body', 'digest_mismatch', 'invalid_header', 'malformed_coding',
        ...background ? OF_BACKGROUND : ['idempotency_not_supported'] as const,
        'body_too_large', 'unsupported_media_type', 'unsupported_content_coding', 'internal_error',
        'store_unavailable', 'store_full',
      ),
    },
  })
  return background ? addResponseHeaders(described, OF_KEY) : described
}
