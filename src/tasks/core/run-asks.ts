import { httpError } from '../../http/errors.js'
import { isWorkerClosing } from '../../engine/runs.js'
import { validInput } from '../../schema/schema.js'
import {
  checkedQuestion, MAX_INPUTS_LENGTH, MAX_QUESTIONS, type CheckedQuestion,
} from '../definition/asks.js'
import type { AnyTaskDefinition } from '../definition/define.js'
import type { AnyQuestion } from '../definition/run-context.js'
import type { InputDetails, Inputs } from '../record/inputs.js'
import type { Stop } from '../run/run.js'
import type { TaskCore } from './task-core.js'

/** The run that asks. */
interface AskingRun {
  readonly core: TaskCore
  readonly definition: AnyTaskDefinition
  readonly stop: Stop
  readonly inputs: Inputs
  readonly isOver: () => boolean
  /** Ends the run, so that the task waits for answers for `delayMs` milliseconds. */
  readonly end: (inputs: Inputs, delayMs: number) => Promise<void>
}

interface Pending extends CheckedQuestion {
  readonly reject: (error: unknown) => void
}

/**
 * The questions of one run. The questions of one turn of the event loop are asked in one change.
 * The promise of a question without an answer never settles, because `run` could catch an error and
 * continue.
 */
export class RunAsks {
  private inputs: Inputs
  private readonly pending = new Map<string, Pending>()
  private isScheduled = false

  constructor(private readonly run: AskingRun) {
    this.inputs = run.inputs
  }

  async ask(key: string, question: AnyQuestion): Promise<never> {
    const { definition, stop, isOver } = this.run
    const checked = checkedQuestion(definition, key, question)
    if (isOver()) throw httpError('attempt_replaced')
    if (stop.aborted && !isWorkerClosing(stop.reason)) throw stop.reason
    const { answer } = this.known(key) ?? {}
    if (answer !== undefined) {
      return await validInput(checked.answers, answer.value) as never
    }
    if (this.pending.has(key)) throw new TypeError(`ask: the key ${key} is asked twice at the same time`)
    return new Promise((_resolve, reject) => {
      this.pending.set(key, { ...checked, reject })
      this.schedule()
    })
  }

  private known(key: string): InputDetails | undefined {
    return Object.hasOwn(this.inputs, key) ? this.inputs[key] : undefined
  }

  private schedule(): void {
    if (this.isScheduled) return
    this.isScheduled = true
    setImmediate(() => { void this.askAll() })
  }

  private async askAll(): Promise<void> {
    const { core, isOver, end } = this.run
    try {
      const now = await core.retry.run(async () => core.engine.now())
      this.isScheduled = false
      if (isOver() || this.rejectLate(now)) return
      const asked = [...this.pending].map(([key, { kind, message, schema, timeoutMs }]) => [
        key, this.known(key) ?? { kind, message, schema, askedAt: now, expiresAt: now + timeoutMs },
      ] as const)
      const inputs = { ...this.inputs, ...Object.fromEntries(asked) }
      checkSize(inputs)
      await end(inputs, Math.min(...asked.map(([, { expiresAt }]) => expiresAt)) - now)
    } catch (error) {
      this.isScheduled = false
      for (const { reject } of this.pending.values()) reject(error)
      this.pending.clear()
    }
  }

  /** Rejects the questions whose time is over. The others are asked again, if the run continues. */
  private rejectLate(now: number): boolean {
    let isLate = false
    for (const [key, { reject }] of this.pending) {
      const known = this.known(key)
      if (known === undefined || known.expiresAt > now) continue
      isLate = true
      this.inputs = { ...this.inputs, [key]: { ...known, isTimedOut: true } }
      this.pending.delete(key)
      reject(httpError('input_timed_out'))
    }
    if (isLate && this.pending.size > 0) this.schedule()
    return isLate
  }
}

/** @throws {TypeError} The task asks too many or too large questions. */
function checkSize(inputs: Inputs): void {
  const count = Object.keys(inputs).length
  if (count > MAX_QUESTIONS) {
    throw new TypeError(`ask: a task may ask ${MAX_QUESTIONS} questions, and this one would ask ${count}`)
  }
  const { length } = JSON.stringify(inputs)
  if (length <= MAX_INPUTS_LENGTH) return
  throw new TypeError(`ask: the questions and answers of a task may have ${MAX_INPUTS_LENGTH} characters as JSON, `
    + `and these would have ${length}; write shorter messages or schemas`)
}
