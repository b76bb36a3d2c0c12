import { ndjsonDownload, ndjsonUpload, type UploadTask } from 'longhaul/ndjson'
import type { Blobs } from 'longhaul/stores'
import type { Handler, TaskEndpoints } from 'longhaul'
import type { Context } from './auth.js'
import type { Users } from './users/repository.js'
import { userRecord, userShape } from './users/schemas.js'
import { upsertUsers } from './users/upsert.js'
import type { User } from './users/user.js'

/** Name of the task that only an upload may start. */
export const UPLOAD_TASK = 'upload-users'

/** Users as NDJSON, in both directions (SPEC 4.9). */
export class NdjsonUsers {
  readonly #users: Users
  readonly #upload

  constructor(users: Users, blobs: Blobs) {
    this.#users = users
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

  /** POST /upload-ndjson: changes the users that exist, and creates the others. */
  upload(endpoints: TaskEndpoints<Context>): Handler<Context> {
    return this.#upload.handler(endpoints)
  }

  /** GET /bulk-data: all users. */
  download(): Handler<Context> {
    return ndjsonDownload<User, Context>({ records: () => this.#users.all(), schema: userShape })
  }
}
