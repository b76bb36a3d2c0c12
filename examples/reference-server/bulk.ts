import {
  bulkCreate, bulkCreateTask, bulkItems, bulkUpdate, bulkUpdateTask, type BulkTask,
} from 'longhaul/bulk'
import type { Blobs } from 'longhaul/stores'
import type { Handler, TaskEndpoints } from 'longhaul'
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
  readonly #blobs: Blobs
  readonly #createTask: BulkTask
  readonly #updateTask: BulkTask

  constructor(users: Users, blobs: Blobs) {
    this.#blobs = blobs
    this.#create = { repository: users, schema: userDraft, key: ({ email }: UserDraft) => emailKey(email), id: ({ id }: User) => id }
    this.#update = {
      repository: users, schema: userRole,
      id: ({ userId }: UserRoleChange) => userId, change: ({ role }: UserRoleChange): UserChange => ({ role }),
    }
    const [creates, updates] = BULK_TASKS
    this.#createTask = bulkCreateTask({ ...this.#create, name: creates, blobs })
    this.#updateTask = bulkUpdateTask({ ...this.#update, name: updates, blobs })
  }

  /** Do batches in the background; for the tasks' definitions. */
  get tasks(): readonly BulkTask[] {
    return [this.#createTask, this.#updateTask]
  }

  /** POST /api/users/bulk: each user is created or refused on its own. */
  create(endpoints: TaskEndpoints<Context>): Handler<Context> {
    return bulkCreate({ ...this.#create, background: { endpoints, task: this.#createTask } })
  }

  /** PATCH /api/users/bulk-update: all roles are changed, or none. */
  update(endpoints: TaskEndpoints<Context>): Handler<Context> {
    return bulkUpdate({ ...this.#update, background: { endpoints, task: this.#updateTask } })
  }

  /** GET /api/status/{id}/items: what became of each item of a batch in the background. */
  items(endpoints: TaskEndpoints<Context>): Handler<Context> {
    return bulkItems({ endpoints, blobs: this.#blobs })
  }
}
