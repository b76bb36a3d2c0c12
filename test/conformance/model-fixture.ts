import type { EngineFixture, EngineSettings } from 'longhaul/conformance'
import { ModelEngine } from './model-engine.js'
import { ModelTasks } from './model-tasks.js'

/** Opens a fixture of model engines on some tasks. */
export function modelFixture(
  settings: EngineSettings,
  { isDurable = true, tasks = new ModelTasks(settings) }: {
    readonly isDurable?: boolean, readonly tasks?: ModelTasks,
  } = {},
): EngineFixture {
  const engines: ModelEngine[] = []
  return {
    open: async () => {
      const engine = new ModelEngine(tasks, { isDurable })
      engines.push(engine)
      if (!isDurable) return { engine }
      return {
        engine,
        freeze: () => { engine.isFrozen = true },
        thaw: () => { engine.isFrozen = false },
        kill: () => engine.kill(),
      }
    },
    snapshot: async () => tasks.snapshot(),
    close: () => { for (const engine of engines) engine.kill() },
  }
}
