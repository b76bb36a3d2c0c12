import {
  ndjsonDownload, ndjsonUpload, uploadTask, type IntakeOptions, type UploadTask,
} from 'longhaul/ndjson'
import type { Blobs } from 'longhaul/stores'
import type { Handler, TaskEndpoints } from 'longhaul'
import type { Context } from './auth.js'
import type { Users } from './users/repository.js'
import { userRecord, userShape } from './users/schemas.js'
import { upsertUsers } from './users/upsert.js'
import type { User } from './users/user.js'

/** Is started by an upload, and by nothing else. */
export const UPLOAD_TASK = 'upload-users'

/** How users come out and go in as NDJSON (SPEC 4.9). */
export class NdjsonUsers {
  readonly #users: Users
  readonly #intake: IntakeOptions<Partial<User>>
  /** Reads uploads in the background; for the tasks' definitions. */
  readonly task: UploadTask

  constructor(users: Users, blobs: Blobs) {
    this.#users = users
    this.#intake = {
      record: userRecord,
      write: (records, { signal, context }) => upsertUsers(users, records, { signal, context }),
    }
    this.task = uploadTask({ ...this.#intake, name: UPLOAD_TASK, blobs })
  }

  /** POST /upload-ndjson: changes the users that have these ids, 0 included, and creates the others. */
  upload(endpoints: TaskEndpoints<Context>): Handler<Context> {
    return ndjsonUpload<Partial<User>, Context>({ ...this.#intake, background: { endpoints, task: this.task } })
  }

  /** GET /bulk-data: all users. */
  download(): Handler<Context> {
    return ndjsonDownload<User, Context>({ records: () => this.#users.all(), record: userShape })
  }
}
