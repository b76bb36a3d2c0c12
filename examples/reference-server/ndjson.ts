import {
  httpError, HttpError, jsonSchema, ndjsonDownload, ndjsonUpload, parsePrefer, uploadTask,
  type Blobs, type Handler, type IntakeOptions, type Policy, type TaskEndpoints, type UploadTask,
} from 'longhaul'
import type { Context } from './auth.js'
import { USER_ROLES, type User } from './users.js'
import type { UserTable } from './user-table.js'

const properties = {
  id: { type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER },
  name: { type: 'string', maxLength: 200 },
  email: { type: 'string', minLength: 3, maxLength: 320, pattern: '@' },
  role: { enum: USER_ROLES },
}

/** Is started by an upload, and by nothing else. */
export const UPLOAD_TASK = 'upload-users'

/** How users of a table come out and go in as NDJSON (SPEC 4.9). */
export class NdjsonUsers {
  readonly #users: UserTable
  readonly #intake: IntakeOptions<Partial<User>>
  /** Reads uploads in the background; for the tasks' definitions. `undefined` where only this process sees the users, and others run tasks. */
  readonly task: UploadTask | undefined

  constructor(users: UserTable, blobs: Blobs | undefined) {
    this.#users = users
    this.#intake = {
      record: jsonSchema<Partial<User>>({ type: 'object', properties }),
      write: (records) => records.map((record) => {
        const done = users.upsert(record)
        if (done) return { status: done.created ? 201 : 200, id: done.user.id }
        return { status: 400, error: { code: httpError('invalid_input').code, message: 'A new user needs an email.' } }
      }),
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
      message: 'The users are in the memory of one process, and tasks run in others; upload without Prefer: respond-async.',
      headers: { 'retry-after': '3600' },
    })
  }

  /** GET /bulk-data: all users. */
  download(): Handler<Context> {
    return ndjsonDownload<User, Context>({ records: () => this.#users.all(), record: { type: 'object', properties } })
  }
}
