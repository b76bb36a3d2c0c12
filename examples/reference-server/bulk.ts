import {
  bulkCreate, bulkCreateTask, bulkItems, bulkUpdate, bulkUpdateTask, HttpError, parsePrefer,
  type Blobs, type BulkTask, type Handler, type Policy, type TaskEndpoints,
} from 'longhaul'
import type { Context } from './auth.js'
import type { Users } from './users/repository.js'
import { userDraft, userRole, type UserRoleChange } from './users/schemas.js'
import { emailKey, type User, type UserChange, type UserDraft } from './users/user.js'

/** Are started by bulk requests, and by nothing else. */
export const BULK_TASKS = ['bulk-create-users', 'bulk-update-users'] as const

/** Many users in one request (SPEC 4.3, 4.4). */
export class BulkUsers {
  readonly #create
  readonly #update
  readonly #blobs: Blobs | undefined
  /** Do batches in the background; for the tasks' definitions. None where those that run tasks can't see both batches and users. */
  readonly tasks: readonly BulkTask[]

  constructor(users: Users, blobs: Blobs | undefined) {
    this.#blobs = blobs
    this.#create = { repository: users, schema: userDraft, key: ({ email }: UserDraft) => emailKey(email), id: ({ id }: User) => id }
    this.#update = {
      repository: users, schema: userRole,
      id: ({ userId }: UserRoleChange) => userId, change: ({ role }: UserRoleChange): UserChange => ({ role }),
    }
    const [creates, updates] = BULK_TASKS
    this.tasks = blobs ? [bulkCreateTask({ ...this.#create, name: creates, blobs }), bulkUpdateTask({ ...this.#update, name: updates, blobs })] : []
  }

  /** POST /api/users/bulk: each user is created or refused on its own. */
  create(endpoints: TaskEndpoints<Context>): Handler<Context> {
    const [task] = this.tasks
    return bulkCreate({ ...this.#create, ...task && { background: { endpoints, task } } })
  }

  /** PATCH /api/users/bulk-update: all roles are changed, or none. */
  update(endpoints: TaskEndpoints<Context>): Handler<Context> {
    const [, task] = this.tasks
    return bulkUpdate({ ...this.#update, ...task && { background: { endpoints, task } } })
  }

  /** GET /api/status/{id}/items: what became of each item of a batch in the background. */
  items(endpoints: TaskEndpoints<Context>): Handler<Context> {
    return this.#blobs ? bulkItems({ endpoints, blobs: this.#blobs }) : () => undefined
  }

  /** In front of the others: says so where the preference can't be honoured. */
  readonly needsOneProcess: Policy<Context> = (request, next) => {
    if (this.#blobs || !parsePrefer(request.headers['prefer']).respondAsync) return next(request)
    throw new HttpError(503, 'needs_shared_database', {
      message: 'A batch in the background lies in the memory of one process, and tasks run in others; send it without Prefer: respond-async.',
      headers: { 'retry-after': '3600' },
    })
  }
}
