import { describe, type Handler } from '../http/exchange.js'
import { OwnerBytes } from '../tasks/record/owner-bytes.js'
import { CreateUpload } from './create.js'
import { Finisher } from './finish.js'
import { createOperations, resourceOperations } from './operations.js'
import { toSettings, type ResumableUploadOptions } from './options.js'
import { UploadRecords } from './records.js'
import { UploadResource } from './resource.js'

export type { ResumableUploadOptions } from './options.js'

/** The two handlers of resumable uploads. Mount both below the same path. */
export interface ResumableUpload<C = unknown> {
  /**
   * Takes the place of the handler. A request with `Upload-Complete` creates an upload, and OPTIONS
   * tells the limits. Any other request goes to the handler. An upload by a method that the handler
   * does not have is a 405 `method_not_allowed`. A handler that is not described has POST, PUT and
   * PATCH.
   */
  readonly create: Handler<C>
  /** One upload, at `uploadPath`: HEAD tells its offset, PATCH appends, DELETE drops it. */
  readonly resource: Handler<C>
}

/**
 * Lets clients resume uploads to a handler after the connection broke
 * (draft-ietf-httpbis-resumable-upload, interop versions 5 to 9). When all bytes are here, the
 * handler gets them as the body of one request, with the method, path and header fields of the
 * first one. The client gets its answer, and gets the same again if that was lost.
 *
 * The bytes are in `blobs` and the state is in `store`, so each request may reach another process.
 * Of two requests that append to one upload, the newer one ends the older one. A handler that is
 * interrupted because its process died runs again with the next request.
 *
 * Errors: 404 `upload_not_found`, 409 `upload_offset_mismatch` and `upload_superseded`, 413
 * `body_too_large`, 400 `digest_mismatch`, `upload_length_inconsistent` and
 * `upload_append_too_small`, 429 `too_many_uploads` and `too_many_bytes`.
 *
 * @example
 * const films = resumableUpload(handler, {
 *   blobs, store, owner: 'principal', uploadPath: '/uploads/{id}',
 * })
 * const api = router({
 *   'POST|OPTIONS /films': films.create,
 *   'GET|HEAD|PATCH|DELETE|OPTIONS /uploads/{id}': films.resource,
 * })
 *
 * @throws {TypeError} An option is unknown, missing or out of range, or `handler` is no function.
 */
export function resumableUpload<C = unknown>(
  handler: Handler<C>, options: ResumableUploadOptions<C>,
): ResumableUpload<C> {
  const settings = toSettings(options)
  if (typeof handler !== 'function') {
    throw new TypeError('resumableUpload: pass the handler of the finished uploads, a function; '
      + 'of an endpoint with `background` pass its handler(endpoints)')
  }
  const { store, blobs } = settings
  const records = new UploadRecords(store, blobs)
  const owners = OwnerBytes.of(store, blobs)
  const finisher = new Finisher(handler, settings, records, owners)
  const parts = { settings, records, owners, finisher }
  const create = new CreateUpload(handler, parts)
  const resource = new UploadResource(parts)
  return {
    create: describe((request) => create.handle(request), createOperations(handler)),
    resource: describe(
      (request) => resource.handle(request), resourceOperations(settings.path.template, handler),
    ),
  }
}
