import { createTasks } from 'longhaul'
import { openCallbacks, type CallbackConfig } from './callbacks.js'
import { openEngine, type EngineConfig } from './engine.js'
import { background } from './tasks/definitions.js'
import { openUsers } from './users/open.js'

export interface RunningWorker {
  /** Stops: running tasks get `drainMs`, and the rest is handed back. Later calls have no effect. */
  stop(): Promise<void>
}

export interface WorkerOptions extends CallbackConfig, EngineConfig {
  readonly drainMs?: number
}

/** Runs tasks that web processes have accepted, without HTTP. */
export async function startWorker(config: WorkerOptions): Promise<RunningWorker> {
  const { redisUrl = 'memory', database = redisUrl, drainMs = 10_000 } = config
  const users = await openUsers(database)
  const { engine, store, blobs, close } = openEngine(config, { web: false })
  const { definitions } = background(users, blobs)
  const tasks = createTasks({ engine, store, blobs, callbacks: openCallbacks(config), definitions })
  let stopped: Promise<void> | undefined
  return {
    stop: () => stopped ??= (async () => {
      await tasks.close({ drainMs })
      await close()
      await users.close()
    })(),
  }
}
