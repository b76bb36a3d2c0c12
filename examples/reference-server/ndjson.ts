import { exportTask } from 'longhaul/export'
import { parsePrefer } from 'longhaul/http'
import {
  ndjsonDownload, ndjsonUpload, type RecordOutcome, type UploadTask, type WriteContext,
} from 'longhaul/ndjson'
import {
  describe, errorResponses, parameter, type Fragment, type OperationOptions,
} from 'longhaul/openapi'
import type { Blobs, Store } from 'longhaul/stores'
import { resumableUpload, type ResumableUpload, type ResumableUploadOptions } from 'longhaul/uploads'
import {
  httpError, jsonSchema, type AnyTaskDefinition, type Handler, type HttpRequest, type Operation,
  type TaskEndpoints,
} from 'longhaul'
import type { Context } from './auth.js'
import type { Users } from './users/repository.js'
import { userRecord, userShape } from './users/schemas.js'
import { upsertUsers } from './users/upsert.js'
import type { User } from './users/user.js'

/** Name of the task that only an upload may start. */
export const UPLOAD_TASK = 'upload-users'

/** Name of the task that writes all users into files. */
export const BULK_DATA_TASK = 'bulk-data'

/** Number of users in one file. A killed worker writes at most one file again. */
export const PART_USERS = 10_000

/** Media types in use for NDJSON. */
const NDJSON = /^(?:application\/(?:(?:x-)?ndjson|(?:x-)?jsonl|(?:x-)?jsonlines|json-lines)|text\/x-ndjson)\s*(?:;|$)/i

/** Refuses an upload by its first request, before a client sends gigabytes in vain. */
const refuseOtherTypes = ({ headers }: HttpRequest<Context>): void => {
  if (!NDJSON.test(String(headers['content-type']))) throw httpError('unsupported_media_type')
}

/** Store and owner of resumable uploads. */
export interface UploadParts {
  readonly store: Store
  readonly owner: ResumableUploadOptions<Context>['owner']
}

/** Users as NDJSON, in both directions (SPEC 4.9). */
export class NdjsonUsers {
  readonly #users: Users
  readonly #blobs: Blobs
  readonly #upload
  readonly #export

  constructor(users: Users, blobs: Blobs) {
    this.#users = users
    this.#blobs = blobs
    this.#upload = ndjsonUpload<Partial<User>>({
      schema: userRecord,
      write: (records, context) => writeUsers(users, records, context),
      ...users.imports && { resume: ({ taskId }) => users.imports?.read(taskId) },
      background: { name: UPLOAD_TASK, blobs },
    })
    this.#export = exportTask<object, User>({
      name: BULK_DATA_TASK, schema: userShape, partRecords: PART_USERS,
      // Clients with fewer users than this find one file `users.ndjson`.
      fileName: (part) => part === 1 ? 'users' : `users-${part}`,
      input: jsonSchema<object>({ type: 'object', additionalProperties: false }),
      records: () => users.all(),
    })
  }

  /** Tasks that read uploads and write downloads in the background, for `createTasks`. */
  get tasks(): readonly [UploadTask, AnyTaskDefinition] {
    return [this.#upload.task, this.#export]
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

  /**
   * GET /bulk-data: all users. With `Prefer: respond-async`, the response is 202, and a task writes
   * them into files. A run that follows a crash keeps the finished files.
   */
  download(endpoints: TaskEndpoints<Context>): Handler<Context> {
    const download = ndjsonDownload<User, Context>({
      records: () => this.#users.all(), schema: userShape,
      headers: { 'cache-control': 'private, no-cache', vary: 'Prefer' },
    })
    const later = { input: {}, body: {} }
    const handler: Handler<Context> = (request) => (
      request.method === 'GET' && parsePrefer(request.headers.prefer).respondAsync
        ? endpoints.accept(request, this.#export, () => later)
        : download(request)
    )
    // The 202 is that of an endpoint which starts the same task.
    const [submit] = endpoints.submit(this.#export, { respond: 'always' }).operations ?? []
    const { 202: accepted = {} } = submit?.openapi['responses'] as OperationOptions['responses']
    return describe(handler, (download.operations ?? []).map((each) => withAccepted(each, accepted)))
  }
}

/** Writes users. An import stores its cursor in the same transaction, so that each line is written once. */
async function writeUsers(
  users: Users, records: readonly Partial<User>[], { signal, context, taskId, cursor, previous }: WriteContext,
): Promise<RecordOutcome[]> {
  const call = { signal, context }
  // Nothing continues a synchronous upload.
  if (taskId === undefined || users.imports === undefined) return upsertUsers(users, records, call)
  return users.transaction(async (inside) => {
    const outcomes = await upsertUsers(inside, records, call)
    await inside.imports?.replace(taskId, cursor(outcomes), previous)
    return outcomes
  }, call)
}

/** Adds the 202 to the operation of GET. */
function withAccepted(given: Operation, accepted: Fragment): Operation {
  if (given.method !== 'GET') return given
  const { parameters = [], responses } = given.openapi as Pick<OperationOptions, 'parameters' | 'responses'>
  return {
    ...given,
    openapi: {
      ...given.openapi,
      parameters: [...parameters, parameter('header', 'Prefer', { description: '`respond-async` writes a file instead' })],
      responses: {
        ...responses,
        202: { ...accepted, description: 'Accepted: a task writes the file users.ndjson, and more if there are more than 10,000 users' },
        ...errorResponses('too_many_requests', 'queue_full', 'store_unavailable', 'shutting_down'),
      },
    },
  }
}
