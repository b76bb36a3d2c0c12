import type { AnyTaskDefinition } from 'longhaul'
import { cancelTasks, forgetTasks, retryTasks } from 'longhaul/operators'
import type { PartialResults } from 'longhaul/partial'
import type { Blobs, Store } from 'longhaul/stores'
import { BulkUsers } from '../bulk.js'
import { NdjsonUsers } from '../ndjson.js'
import type { Users } from '../users/repository.js'
import { anyTask } from './any-task.js'
import { checksum } from './checksum.js'
import { exportUsers } from './export-users.js'
import { invite } from './invite.js'
import { processData } from './process-data.js'
import { processJob } from './process-job.js'
import { storyWords, tell } from './tell.js'
import { wait } from './wait.js'

/** All background work of this server. */
export interface Background {
  readonly ndjson: NdjsonUsers
  readonly bulk: BulkUsers
  /** Partial results of the tasks `tell`. */
  readonly words: PartialResults<string>
  /** Retry, cancel and delete other tasks, for operators. */
  readonly many: ReturnType<typeof manyTasks>
  /** For `createTasks`. Web and worker processes share the list. */
  readonly definitions: AnyTaskDefinition[]
}

/** Creates the definitions for these users, and for blobs and a store that all processes share. */
export function background(users: Users, blobs: Blobs, store: Store): Background {
  const ndjson = new NdjsonUsers(users, blobs)
  const bulk = new BulkUsers(users, blobs)
  const many = manyTasks()
  const words = storyWords(store)
  return {
    ndjson, bulk, words, many,
    definitions: [
      wait, checksum, tell(words), exportUsers(users), invite, anyTask, processData, processJob,
      ...ndjson.tasks, ...bulk.tasks, ...Object.values(many),
    ],
  }
}

function manyTasks() {
  return { retries: retryTasks(), cancels: cancelTasks(), forgets: forgetTasks() }
}
