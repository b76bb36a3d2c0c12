import type { HttpResponse } from '../../http/exchange.js'
import { empty } from '../../http/respond.js'
import { heapBytesOf } from '../../runtime/json.js'
import { isWorkerClosing } from '../../engine/runs.js'
import { unsavedCheckpoint } from '../definition/json-values.js'
import { NO_FILES } from '../run/run-files.js'
import { errorOf, holdInput, runOnce, type Outcome, type RunOptions } from '../run/run.js'
import type { MaybePromise } from '../../runtime/maybe-promise.js'
import { Stop } from '../run/stop.js'
import { result, stoppedMidway, tookTooLong } from './respond.js'
import type { EndpointSettings } from './settings.js'
import type { Submission } from './submission.js'

/** Time for a run to end after its time limit, in milliseconds. */
const KEEP_ALIVE_MARGIN_MS = 2000

/** Place of a run in `concurrency`, and the memory for its input. */
export interface RunPlace {
  readonly release: () => void
}

/**
 * Acquires a place for the run of a synchronous request in this process, without storing a task.
 * Returns `undefined` if the work has to become a task: it has an Idempotency-Key or a transaction,
 * `attempts`, `maxPerOwner` or files, `direct` of `createTasks` says so, no place is free, or other
 * runs use the memory that the input needs.
 */
export function acquireRunPlace<C>(
  { service }: EndpointSettings<C>, { idempotency, transaction, definition, input }: Submission<C>,
): RunPlace | undefined {
  const { attempts, maxPerOwner, files } = definition
  const needsTask = idempotency !== undefined || transaction !== undefined || attempts > 1
    || (maxPerOwner ?? Infinity) !== Infinity || files === true
  if (needsTask) return undefined
  const { pool } = definition
  const places = service.directPlacesOf(pool)
  if (!places?.tryAcquire(pool)) return undefined
  const memory = holdInput(heapBytesOf(input))
  if (memory === undefined) {
    places.release(pool)
    return undefined
  }
  return {
    release: () => {
      memory.release()
      places.release(pool)
    },
  }
}

/** Runs work in its place, and releases the place. Stops the work if the client disconnects. */
export async function runHere<C>(
  { service: { directRuns, maxResultBytes, settings: { tracing } }, syncTimeoutMs, context }: EndpointSettings<C>,
  { definition, input, submitter: { request, owner } }: Submission<C>, place: RunPlace,
): Promise<HttpResponse> {
  const stop = new Stop(request)
  // Keeps the process alive while a request waits, even if no socket does.
  const keepAlive = setTimeout(() => undefined, syncTimeoutMs + KEEP_ALIVE_MARGIN_MS)
  try {
    directRuns.add(stop)
    const options: RunOptions = {
      taskId: undefined, attempt: 1, lastAttempt: true, owner, context: context?.(request),
      progress: () => undefined, checkpoint: unsavedCheckpoint(definition), files: NO_FILES,
      stop, timeoutMs: Math.min(definition.timeoutMs, syncTimeoutMs), maxResultBytes,
    }
    const run = (): MaybePromise<Outcome> => runOnce(definition, input, options)
    const outcome = await (tracing ? tracing.run({ name: definition.name, attempt: 1 }, run, errorOf) : run())
    if (outcome.kind === 'completed') return result(outcome.result)
    if (outcome.kind === 'failed') {
      const isOurTimeout = outcome.timedOut && definition.timeoutMs > syncTimeoutMs
      throw isOurTimeout ? tookTooLong(outcome.cause) : outcome.cause
    }
    if (isWorkerClosing(outcome.reason)) throw stoppedMidway()
    // The client has disconnected, so nobody reads this.
    return empty(503)
  } finally {
    clearTimeout(keepAlive)
    stop.end()
    directRuns.remove(stop)
    place.release()
  }
}
