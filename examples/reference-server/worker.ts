import { createTasks } from 'longhaul'
import { openCallbacks, type CallbackConfig } from './callbacks.js'
import { openStorage, type StorageConfig } from './storage.js'
import { background } from './tasks/definitions.js'
import { openUsers } from './users/open.js'

export interface RunningWorker {
  /** Stops: running tasks get `drainMs`, and the rest goes to other workers. Later calls have no effect. */
  stop(): Promise<void>
}

export interface WorkerOptions extends CallbackConfig, StorageConfig {
  readonly drainMs?: number
}

/** Runs tasks that web processes have accepted, without HTTP. */
export async function startWorker(config: WorkerOptions): Promise<RunningWorker> {
  const { redisUrl = 'memory', database = redisUrl, drainMs = 10_000 } = config
  const users = await openUsers(database)
  const storage = openStorage(config, { web: false })
  const { engine, store, blobs } = storage
  const { definitions } = background(users, blobs, store)
  const tasks = createTasks({ engine, store, blobs, callbacks: openCallbacks(config), definitions })
  let stopped: Promise<void> | undefined
  return {
    stop: () => stopped ??= (async () => {
      await tasks.close({ drainMs })
      await storage.close()
      await users.close()
    })(),
  }
}
