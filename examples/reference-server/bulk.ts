import { bulkCreate, bulkItems, bulkUpdate, type BulkTask } from 'longhaul/bulk'
import type { Blobs } from 'longhaul/stores'
import type { Handler, TaskEndpoints } from 'longhaul'
import type { Context } from './auth.js'
import type { Users } from './users/repository.js'
import { userDraft, userRole } from './users/schemas.js'
import { emailKey } from './users/user.js'

/** Names of the tasks that only bulk requests may start. */
export const BULK_TASKS = ['bulk-create-users', 'bulk-update-users'] as const

/** Many users in one request (SPEC 4.3, 4.4). */
export class BulkUsers {
  readonly #create
  readonly #update
  readonly #blobs: Blobs

  constructor(users: Users, blobs: Blobs) {
    const [createName, updateName] = BULK_TASKS
    this.#blobs = blobs
    this.#create = bulkCreate({
      repository: users,
      schema: userDraft,
      key: ({ email }) => emailKey(email),
      background: { name: createName, blobs },
    })
    this.#update = bulkUpdate({
      repository: users,
      schema: userRole,
      id: ({ userId }) => userId,
      change: ({ role }) => ({ role }),
      background: { name: updateName, blobs },
    })
  }

  /** Tasks that write batches in the background, for `createTasks`. */
  get tasks(): readonly BulkTask[] {
    return [this.#create.task, this.#update.task]
  }

  /** POST /api/users/bulk: each user is created or rejected on its own. */
  create(endpoints: TaskEndpoints<Context>): Handler<Context> {
    return this.#create.handler(endpoints)
  }

  /** PATCH /api/users/bulk-update: all roles are changed, or none. `Prefer: handling=lenient`: those that can be. */
  update(endpoints: TaskEndpoints<Context>): Handler<Context> {
    return this.#update.handler(endpoints)
  }

  /** GET /api/status/{id}/items: the report of a batch that was written in the background. */
  items(endpoints: TaskEndpoints<Context>): Handler<Context> {
    return bulkItems({ endpoints, blobs: this.#blobs })
  }
}
