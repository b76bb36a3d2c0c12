import { ndjsonDownload, ndjsonUpload, type UploadTask } from 'longhaul/ndjson'
import type { Blobs, Store } from 'longhaul/stores'
import { resumableUpload, type ResumableUpload, type ResumableUploadOptions } from 'longhaul/uploads'
import { httpError, type Handler, type HttpRequest, type TaskEndpoints } from 'longhaul'
import type { Context } from './auth.js'
import type { Users } from './users/repository.js'
import { userRecord, userShape } from './users/schemas.js'
import { upsertUsers } from './users/upsert.js'
import type { User } from './users/user.js'

/** Name of the task that only an upload may start. */
export const UPLOAD_TASK = 'upload-users'

/** Media types in use for NDJSON. */
const NDJSON = /^application\/(?:(?:x-)?ndjson|jsonl|(?:x-)?jsonlines)\s*(?:;|$)/i

/** Refuses an upload by its first request, before a client sends gigabytes in vain. */
const refuseOtherTypes = ({ headers }: HttpRequest<Context>): void => {
  if (!NDJSON.test(String(headers['content-type']))) throw httpError('unsupported_media_type')
}

/** What resumable uploads need besides the handler. */
export interface UploadParts {
  readonly store: Store
  readonly owner: ResumableUploadOptions<Context>['owner']
}

/** Users as NDJSON, in both directions (SPEC 4.9). */
export class NdjsonUsers {
  readonly #users: Users
  readonly #blobs: Blobs
  readonly #upload

  constructor(users: Users, blobs: Blobs) {
    this.#users = users
    this.#blobs = blobs
    this.#upload = ndjsonUpload<Partial<User>>({
      schema: userRecord,
      write: (records, { signal, context }) => upsertUsers(users, records, { signal, context }),
      background: { name: UPLOAD_TASK, blobs },
    })
  }

  /** Task that reads uploads in the background, for `createTasks`. */
  get task(): UploadTask {
    return this.#upload.task
  }

  /**
   * POST /upload-ndjson: changes the users that exist, and creates the others. A request with
   * `Upload-Complete` creates an upload at /uploads/{id}, which resumes after a broken connection.
   */
  upload(endpoints: TaskEndpoints<Context>, { store, owner }: UploadParts): ResumableUpload<Context> {
    return resumableUpload(this.#upload.handler(endpoints), {
      blobs: this.#blobs, store, owner, uploadPath: '/uploads/{id}', check: refuseOtherTypes,
    })
  }

  /** GET /bulk-data: all users. */
  download(): Handler<Context> {
    return ndjsonDownload<User, Context>({ records: () => this.#users.all(), schema: userShape })
  }
}
