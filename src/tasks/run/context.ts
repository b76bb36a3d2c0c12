import type { TaskContext } from '../definition/define.js'
import type { Stop } from './stop.js'

/** What one run is given. */
export interface RunOptions extends Omit<TaskContext, 'signal'> {
  /** Stops the run. It serves one run. */
  readonly stop: Stop
  readonly timeoutMs: number
  readonly maxResultBytes: number
}

/** What one run is told. */
export class RunContext implements TaskContext<never> {
  readonly taskId: string | undefined
  readonly attempt: number
  readonly lastAttempt: boolean
  readonly owner: string | undefined
  /** `never`, because what a definition needs is known where it is submitted, not here. */
  readonly context: never
  readonly progress: TaskContext['progress']
  declare readonly signal: AbortSignal
  readonly #stop: Stop

  constructor({ taskId, attempt, lastAttempt, owner, context, progress, stop }: RunOptions) {
    this.taskId = taskId
    this.attempt = attempt
    this.lastAttempt = lastAttempt
    this.owner = owner
    this.context = context as never
    this.progress = progress
    this.#stop = stop
    // A property of its own, so that it is in a copy too (`{ ...context }`), by one getter for all:
    // V8 keeps a shape, and with it the whole run, for every getter that it meets.
    Object.defineProperty(this, 'signal', RunContext.#signal)
  }

  static readonly #signal: PropertyDescriptor & ThisType<RunContext> = {
    enumerable: true,
    get() { return this.#stop.signal },
  }
}
