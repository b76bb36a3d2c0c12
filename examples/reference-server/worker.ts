import { createTasks } from 'longhaul'
import { openEngine } from './engine.js'
import { definitions } from './tasks/definitions.js'

export interface RunningWorker {
  /** Stops cleanly: running tasks get `drainMs`, and what is left is handed back. Calling it again changes nothing. */
  stop(): Promise<void>
}

/** Runs tasks that web processes have taken in, without HTTP. */
export function startWorker({ redisUrl, drainMs = 10_000 }: { readonly redisUrl?: string | undefined, readonly drainMs?: number }): RunningWorker {
  const engine = openEngine(redisUrl)
  const tasks = createTasks({ store: engine.store, queue: engine.queue, definitions: definitions() })
  let stopped: Promise<void> | undefined
  return {
    stop: () => stopped ??= (async () => {
      await tasks.close({ drainMs })
      await engine.close()
    })(),
  }
}
