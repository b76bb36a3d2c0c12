import { createTasks } from 'longhaul'
import { openCallbacks, type CallbackConfig } from './callbacks.js'
import { openEngine } from './engine.js'
import { definitions } from './tasks/definitions.js'
import { openUsers } from './users/open.js'

export interface RunningWorker {
  /** Stops cleanly: running tasks get `drainMs`, and what is left is handed back. Calling it again changes nothing. */
  stop(): Promise<void>
}

export interface WorkerOptions extends CallbackConfig {
  readonly redisUrl?: string | undefined
  /** Where the users are. Default `memory`: as they are at the start, since nobody else's changes are seen. */
  readonly database?: string
  readonly drainMs?: number
}

/** Runs tasks that web processes have taken in, without HTTP. */
export async function startWorker(config: WorkerOptions): Promise<RunningWorker> {
  const { redisUrl, database = 'memory', drainMs = 10_000 } = config
  const users = await openUsers(database)
  const engine = openEngine(redisUrl, { web: false })
  const { store, index, queue, callbackQueue } = engine
  const tasks = createTasks({ store, index, queue, callbacks: openCallbacks(config, callbackQueue), definitions: definitions(users) })
  let stopped: Promise<void> | undefined
  return {
    stop: () => stopped ??= (async () => {
      await tasks.close({ drainMs })
      await engine.close()
      await users.close()
    })(),
  }
}
