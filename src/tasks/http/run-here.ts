import type { HttpResponse } from '../../http/exchange.js'
import { empty } from '../../http/respond.js'
import { isWorkerClosing } from '../../engine/runs.js'
import { unsavedCheckpoint } from '../definition/json-values.js'
import { NO_FILES } from '../run/run-files.js'
import { heapBytesOf } from '../../runtime/json.js'
import { holdInput, runOnce } from '../run/run.js'
import { Stop } from '../run/stop.js'
import type { EndpointSettings } from './endpoint-settings.js'
import { result, stoppedMidway, tookTooLong } from './respond-direct.js'
import type { Submission } from './submission.js'

/** Time for a run to end after its time limit, in milliseconds. */
const KEEP_ALIVE_MARGIN_MS = 2000

/** Place of a run in `concurrency`, and the memory for its input. */
export interface RunPlace {
  readonly release: () => void
}

/**
 * Acquires a place for a run that answers its request directly, in this process and without storing
 * a task (SPEC 4.6 rule 5). Returns `undefined` if the work has to become a task: it has an
 * Idempotency-Key or a transaction, `attempts`, `maxPerOwner` or files, `direct` of `createTasks`
 * says so, no place is free, or other runs use the memory that the input needs.
 */
export function acquireRunPlace<C>(
  { service }: EndpointSettings<C>,
  { direct, idempotencyKey, transaction, definition, input }: Submission<C>,
): RunPlace | undefined {
  const { attempts, maxPerOwner, files } = definition
  const needsRecord = idempotencyKey !== undefined || transaction !== undefined || attempts > 1
    || (maxPerOwner ?? Infinity) !== Infinity || files === true
  if (!direct || needsRecord) return undefined
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

/** Runs work in its place, and releases that. Stops the work if the client disconnects. */
export async function runHere<C>(
  settings: EndpointSettings<C>, submission: Submission<C>, place: RunPlace,
): Promise<HttpResponse> {
  const { directRuns } = settings.service
  const stop = new Stop(submission.request)
  try {
    directRuns.add(stop)
    return await run(settings, submission, stop)
  } finally {
    stop.end()
    directRuns.remove(stop)
    place.release()
  }
}

async function run<C>(
  settings: EndpointSettings<C>, submission: Submission<C>, stop: Stop,
): Promise<HttpResponse> {
  const { service: { maxResultBytes }, syncTimeoutMs } = settings
  const { definition, input, requester: { owner }, request } = submission
  // Keeps the process alive while a request waits, also where no socket does.
  const keepAlive = setTimeout(() => undefined, syncTimeoutMs + KEEP_ALIVE_MARGIN_MS)
  const outcome = await runOnce(definition, input, {
    taskId: undefined, attempt: 1, lastAttempt: true, owner, context: settings.context(request),
    progress: () => undefined, checkpoint: unsavedCheckpoint(definition), files: NO_FILES,
    stop, timeoutMs: Math.min(definition.timeoutMs, syncTimeoutMs), maxResultBytes,
  })
  clearTimeout(keepAlive)
  if (outcome.kind === 'completed') return result(outcome.result)
  if (outcome.kind === 'failed') {
    throw outcome.timedOut && definition.timeoutMs > syncTimeoutMs ? tookTooLong(outcome.cause) : outcome.cause
  }
  if (isWorkerClosing(outcome.reason)) throw stoppedMidway()
  // The client has disconnected, so nobody reads this.
  return empty(503)
}
