import { isWorkerClosing } from '../engine/runs.js'
import { countedAsOwner } from '../http/requester.js'
import { storedOwner } from '../runtime/names.js'
import type { Store } from '../stores/store.js'
import { checkpointText, type JsonForm, type JsonSafe } from '../tasks/definition/json-values.js'
import type { TaskContext } from '../tasks/definition/run-context.js'
import { PartialWriter, resultText, type PartialLimits } from './partial-writer.js'

/** The part of the context of `run` that emits. `T` is the type of one partial result. */
export interface Emitting<T> {
  /**
   * Appends a partial result, such as a token, a line of a log or a row. Clients read it soon
   * after. Resolves at once, unless more than 64 KiB wait to be written. Await it: without `await`,
   * a run that emits faster than the store writes fills the memory. All results are stored when
   * `run` has ended, and when `checkpoint.save` has resolved.
   *
   * If a call rejects, `run` fails at its end, even if it does not await the call.
   *
   * A synchronous request has no partial results: `emit` checks the value and keeps nothing.
   *
   * @throws {TypeError} the value is not JSON, or has more than 64 KiB
   * @throws {HttpError} 409 `attempt_replaced`: a later run of the task has begun
   * @throws {StoreUnavailableError} the store did not respond for five minutes
   * @throws the reason of `signal`, if the task was cancelled or took too long
   */
  readonly emit: (result: T & JsonSafe<T>) => Promise<void>
  /** Returns what earlier runs of this task and this one have emitted since `clear`. */
  readonly emitted: () => Promise<Emitted<T>>
  /** Drops all partial results, for a run that starts over. Readers get a gap. */
  readonly clear: () => Promise<void>
}

/** The partial results that the runs of a task have emitted so far. */
export interface Emitted<T> {
  /** Number of emitted results, dropped ones included. 0 if the store has evicted all of them. */
  readonly count: number
  /** The newest of them that are still stored, in order and without a gap, as JSON carries them. */
  readonly results: readonly JsonForm<T>[]
}

type Writer = Pick<PartialWriter, 'emit' | 'clear' | 'stored' | 'settled' | 'fail'>

/** Writer of a synchronous request, which keeps nothing. */
class NoWriter implements Writer {
  private failure: { readonly error: unknown } | undefined

  async emit(): Promise<void> {
    return this.settled()
  }

  async clear(): Promise<void> {
    return this.settled()
  }

  async stored() {
    return { count: 0, texts: [] }
  }

  async settled(): Promise<void> {
    if (this.failure) throw this.failure.error
  }

  fail(error: unknown): void {
    this.failure ??= { error }
  }
}

/** Does the work of a run that emits. Resolves when all that it has emitted is stored. */
export async function runEmitting<T, R>(
  store: Store, context: TaskContext, limits: PartialLimits, work: (context: TaskContext & Emitting<T>) => R,
): Promise<Awaited<R>> {
  const writer = await openWriter(store, context, limits)
  const { checkpoint, signal } = context
  let isOver = false
  /** Calls a function of the run. A call that nobody awaits must not end the process: the end of the run reports it. */
  const guarded = (call: () => Promise<void>): Promise<void> => {
    const calling = (async () => {
      if (isOver) throw new Error('emit: the run has ended')
      try {
        // One that a shutdown stops may still end.
        if (signal.aborted && !isWorkerClosing(signal.reason)) throw signal.reason
        await call()
      } catch (error) {
        writer.fail(error)
        throw error
      }
    })()
    calling.catch(() => undefined)
    return calling
  }
  const emitting: TaskContext & Emitting<T> = {
    ...context,
    emit: (result) => guarded(() => writer.emit(resultText(result))),
    clear: () => guarded(() => writer.clear()),
    async emitted() {
      const { count, texts } = await writer.stored()
      return { count, results: texts.map((text) => JSON.parse(text) as JsonForm<T>) }
    },
    checkpoint: {
      value: checkpoint.value,
      // Else the next run would go on behind results that were never stored.
      save: async (value) => {
        // As it is now: what the run emits after this call may not be stored yet.
        const saved = JSON.parse(checkpointText('the task', value)) as typeof value
        await writer.settled()
        return checkpoint.save(saved)
      },
    },
  }
  try {
    const result = await work(emitting)
    isOver = true
    await writer.settled()
    return result
  } catch (error) {
    isOver = true
    await writer.settled().catch(() => undefined)
    throw error
  }
}

async function openWriter(
  store: Store, { taskId, external, attempt, owner, tenant, signal }: TaskContext, limits: PartialLimits,
): Promise<Writer> {
  if (taskId === undefined) return new NoWriter()
  if (external === undefined) throw new TypeError('partialResults: the definition needs the property external, too')
  const stored = storedOwner({ owner, tenant })
  const caller = stored === undefined ? undefined : countedAsOwner(stored)
  return PartialWriter.open(store, { task: { id: taskId, external }, attempt, caller, signal }, limits)
}
