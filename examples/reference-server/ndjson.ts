import {
  HttpError, ndjsonDownload, ndjsonUpload, parsePrefer, uploadTask,
  type Blobs, type Handler, type IntakeOptions, type Policy, type TaskEndpoints, type UploadTask,
} from 'longhaul'
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
  /** Reads uploads in the background; for the tasks' definitions. `undefined` where those that run tasks can't see both uploads and users. */
  readonly task: UploadTask | undefined

  constructor(users: Users, blobs: Blobs | undefined) {
    this.#users = users
    this.#intake = {
      record: userRecord,
      write: (records, { signal, context }) => upsertUsers(users, records, { signal, context }),
    }
    this.task = blobs && uploadTask({ ...this.#intake, name: UPLOAD_TASK, blobs })
  }

  /** POST /upload-ndjson: changes the users that have these ids, 0 included, and creates the others. */
  upload(endpoints: TaskEndpoints<Context>): Handler<Context> {
    const background = this.task && { endpoints, task: this.task }
    return ndjsonUpload<Partial<User>, Context>({ ...this.#intake, ...background && { background } })
  }

  /** In front of `upload`: says so where the preference can't be honoured. */
  readonly needsOneProcess: Policy<Context> = (request, next) => {
    if (this.task || !parsePrefer(request.headers['prefer']).respondAsync) return next(request)
    throw new HttpError(503, 'needs_shared_database', {
      message: 'What is uploaded is in the memory of one process, and tasks run in others; upload without Prefer: respond-async.',
      headers: { 'retry-after': '3600' },
    })
  }

  /** GET /bulk-data: all users. */
  download(): Handler<Context> {
    return ndjsonDownload<User, Context>({ records: () => this.#users.all(), record: userShape })
  }
}
