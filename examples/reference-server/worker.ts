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
  const engine = openEngine(config, { web: false })
  const { store, index, queue, blobs, callbackQueue } = engine
  const { definitions } = background(users, blobs)
  const tasks = createTasks({ store, index, queue, blobs, callbacks: openCallbacks(config, callbackQueue), definitions })
  let stopped: Promise<void> | undefined
  return {
    stop: () => stopped ??= (async () => {
      await tasks.close({ drainMs })
      await engine.close()
      await users.close()
    })(),
  }
}
