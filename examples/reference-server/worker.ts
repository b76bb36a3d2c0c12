import { createTasks } from 'longhaul'
import { callbacks, type CallbackConfig } from './callbacks.js'
import { openEngine } from './engine.js'
import { definitions } from './tasks/definitions.js'

export interface RunningWorker {
  /** Stops cleanly: running tasks get `drainMs`, and what is left is handed back. Calling it again changes nothing. */
  stop(): Promise<void>
}

export interface WorkerOptions extends CallbackConfig {
  readonly redisUrl?: string | undefined
  readonly drainMs?: number
}

/** Runs tasks that web processes have taken in, without HTTP. */
export function startWorker(config: WorkerOptions): RunningWorker {
  const { redisUrl, drainMs = 10_000 } = config
  const engine = openEngine(redisUrl)
  const { store, queue, callbackQueue } = engine
  const tasks = createTasks({ store, queue, callbacks: callbacks(config, callbackQueue), definitions: definitions() })
  let stopped: Promise<void> | undefined
  return {
    stop: () => stopped ??= (async () => {
      await tasks.close({ drainMs })
      await engine.close()
    })(),
  }
}
