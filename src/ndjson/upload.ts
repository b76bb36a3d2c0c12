import { requestCoding } from '../http/body/decode.js'
import { httpError } from '../http/errors.js'
import { describe, type Handler, type HttpRequest, type HttpResponse } from '../http/exchange.js'
import { acknowledged, refuseIdempotencyKey } from '../http/respond.js'
import { parsePrefer } from '../http/fields/prefer.js'
import type { TaskEndpoints } from '../tasks/http/endpoints.js'
import { directUpload, respondAtEnd, respondInLines, respondOnce } from './direct-upload.js'
import { checkNdjsonType } from './media-type.js'
import { uploadOperation } from './upload-operation.js'
import {
  checkUploadOptions, decodeOptions, type UploadBackgroundOptions, type UploadOptions,
  type UploadTask,
} from './upload-options.js'
import { spooledUpload, type SpooledUpload } from './upload-task.js'

/** An upload that clients may ask to be read in the background. Returned by `ndjsonUpload`. */
export interface BackgroundUpload {
  /** Reads uploads in the background. Pass it to `createTasks` in `definitions`. */
  readonly task: UploadTask
  /**
   * Creates the handler for POST.
   *
   * @param endpoints - the endpoints of the tasks that `task` is defined in
   * @throws {TypeError} `task` is not among the definitions of these tasks.
   */
  handler<C>(endpoints: TaskEndpoints<C>): Handler<C>
}

/**
 * Creates a handler for POST that reads records as NDJSON (SPEC 4.9). Its memory does not grow with
 * the number of records. Each line is one JSON object; a bad line is skipped and counted. Bodies
 * may be coded with gzip, deflate, br, and zstd where Node supports it.
 *
 * Without `background` the result is the handler. With `background` it has two parts: `task` for
 * `createTasks`, and `handler(endpoints)` for the router. A client then chooses with `Prefer:
 * respond-async`: the body is spooled to blobs, answered with 202, and read by the task.
 *
 * The answer is 200 `{ message, summary: { total, succeeded, failed }, errors: [{ line, code,
 * message, excerpt, details? }] }`, even if every line is bad. A client that accepts
 * `application/x-ndjson` receives one line for each record during the upload, `{ line, status, id?,
 * error? }`. The last line is `{ message, summary }`, or `{ error, code, summary }` if the upload
 * ended early. Such a client has to read while it sends.
 *
 * With `background`, requests may have an Idempotency-Key. A direct upload with a key runs once: a
 * later request with the key gets the same response. If the upload broke after records were written,
 * that is the error with the report of these records. Use `resumableUpload` of `longhaul/uploads`
 * for uploads that continue after a broken connection. Without `background` a request with a key is
 * 400 `idempotency_not_supported`, unless the policy `idempotent()` is in front.
 *
 * Fails with `unsupported_media_type` and `unsupported_content_coding` (415), `body_too_large`
 * (413), `malformed_coding` and `incomplete_body` (400), and with the errors of `write`. If records
 * were written before, the error body has `summary` and `errors`. Nothing is rolled back.
 *
 * @example
 * import { router } from 'longhaul'
 * import { ndjsonUpload } from 'longhaul/ndjson'
 *
 * const upload = ndjsonUpload({
 *   write: async (users) => { console.log(`${users.length} users`) },
 * })
 * export const handler = router({ 'POST /users': upload })
 *
 * @throws {TypeError} An option is unknown or not valid.
 */
export function ndjsonUpload<T = object, C = unknown>(
  options: UploadOptions<T> & { readonly background?: undefined },
): Handler<C>
export function ndjsonUpload<T = object>(
  options: UploadOptions<T> & { readonly background: UploadBackgroundOptions },
): BackgroundUpload
export function ndjsonUpload<T>(options: UploadOptions<T>): BackgroundUpload | Handler {
  checkUploadOptions(options)
  const limits = decodeOptions(options)
  if (options.background === undefined) return uploadHandler(options, limits)
  const spooled = spooledUpload(options, limits, options.background)
  const { task } = spooled
  return {
    task,
    handler<C>(endpoints: TaskEndpoints<C>): Handler<C> {
      if (!endpoints?.tasks) {
        throw new TypeError('ndjsonUpload: handler needs what taskEndpoints returned')
      }
      if (endpoints.tasks.definition(task.name) !== task) {
        throw new TypeError(`ndjsonUpload: the task ${task.name} is not among the definitions`
          + ' of createTasks; add it there')
      }
      return uploadHandler(options, limits, { endpoints, spooled })
    },
  }
}

type Limits = ReturnType<typeof decodeOptions>

interface Background<C> {
  readonly endpoints: TaskEndpoints<C>
  readonly spooled: SpooledUpload
}

function uploadHandler<T, C>(
  options: UploadOptions<T>, limits: Limits, background?: Background<C>,
): Handler<C> {
  const handler = (
    request: HttpRequest<C>,
  ): Promise<HttpResponse> | HttpResponse | undefined => {
    if (request.method !== 'POST') return undefined
    if (!background) refuseIdempotencyKey(request)
    const coding = checkHead(request, limits)
    const isAsync = background && parsePrefer(request.headers['prefer']).respondAsync
    const isKeyed = background && request.headers['idempotency-key'] !== undefined
    if (isAsync) {
      const { endpoints, spooled } = background
      return endpoints.accept(request, spooled.task, () => spooled.spool(endpoints, request, coding))
    }
    const origin = background
      ? background.endpoints.originOf(request)
      : { owner: undefined, context: request.context }
    const upload = directUpload(request, options, limits, coding, origin)
    if (isKeyed) {
      return acknowledged(request, () => respondOnce(background.endpoints, request, upload))
    }
    const { report, streamResults } = upload
    const results = upload.read(request.body.stream(), request.signal)
    return streamResults
      ? respondInLines(results, report)
      : respondAtEnd(results, report, request.signal)
  }
  return describe(handler, [uploadOperation(options.schema, background !== undefined)])
}

/** Checks the header fields of an upload. Returns its content coding. */
function checkHead({ headers, body }: HttpRequest<unknown>, { maxBodyBytes }: Limits): string {
  checkNdjsonType(headers)
  // A body that the host has parsed is already decoded.
  const coding = body.parsed === undefined ? requestCoding(headers) : 'identity'
  const length = headers['content-length']
  if (typeof length === 'string' && Number(length) > maxBodyBytes) {
    throw httpError('body_too_large', { message: `The body is larger than ${maxBodyBytes} bytes.` })
  }
  return coding
}
