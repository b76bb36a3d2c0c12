import { WORKER_ID } from '../../runtime/warning.js'
import { StoreUnavailableError } from '../../stores/store.js'
import { submitTask } from './accept-task.js'
import { abandonTask } from './change-task.js'
import { afterEnd } from './follow-up.js'
import { RunningTask } from './run-task.js'
import type { TaskCore } from './task-core.js'

/** Maximum number of follow-ups of failed tasks that are created at the same time. */
const FOLLOW_UPS = 8

/** Begins to run the tasks of the pools that this process works for, and their schedules. */
export function startWorker(core: TaskCore): void {
  const { engine, places, settings: { callbacks, limits, store, work, definitions } } = core
  if (work.length === 0) return
  const hasFollowUps = [...definitions.values()].some(({ onFailed }) => onFailed !== undefined)
  engine.work({ places, callbacks: callbacks?.concurrency ?? (hasFollowUps ? FOLLOW_UPS : 0), limits }, {
    run: (run) => new RunningTask(core, run).perform(),
    callback: (task) => afterEnd(core, task),
    remove: (task) => core.removeFiles(task),
    abandon: (task) => abandonTask(core, task),
    outage: (error) => { core.report(outageOf(error), { id: WORKER_ID, name: 'worker', attempt: 0 }) },
  })
  core.schedules = [...definitions.values()].flatMap((definition) => {
    const { name, schedule, pool } = definition
    if (schedule === undefined || !work.includes(pool)) return []
    return schedule.begin({
      name, store, now: () => engine.now(),
      submit: (id, input) => submitTask(core, definition, input, { id, owner: undefined, caller: undefined }),
      onError: (error) => { core.report(error, { id: `schedule:${name}`, name, attempt: 0 }) },
    })
  })
}

/**
 * Returns the error of a worker that finds or takes no tasks. Its `cause` is the error of the
 * driver.
 */
function outageOf(error: unknown): unknown {
  if (!(error instanceof Error)) return error
  return new StoreUnavailableError(
    `This process takes no tasks until the task engine works again: ${error.message}`,
    { cause: error.cause ?? error },
  )
}
