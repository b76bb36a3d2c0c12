import type { HttpResponse } from '../../http/exchange.js'
import { empty } from '../../http/respond.js'
import { isQueueClosing } from '../../queues/queue.js'
import { unsavedCheckpoint } from '../definition/unsaved-checkpoint.js'
import { hasSlots } from '../intake/owner-slots.js'
import { NO_FILES } from '../run/files/run-files.js'
import { runOnce } from '../run/run.js'
import { Stop } from '../run/stop.js'
import type { EndpointSettings } from './endpoint-settings.js'
import { result, stoppedMidway, tookTooLong } from './respond-direct.js'
import type { Submission } from './submission.js'

/** Time for a run to end after its time limit, in milliseconds. */
const KEEP_ALIVE_MARGIN_MS = 2000

/**
 * Acquires a slot for a run that answers its request directly, in this process and without a record
 * (SPEC 4.6 rule 5). Returns `false` if the work has to become a task: because of its
 * Idempotency-Key or its transaction, because `attempts` and `maxPerOwner` are counted on record, because its
 * files belong to a task, because `direct` of `createTasks` says so, or because all slots are taken.
 */
export function acquireRunSlot<C>(
  { service }: EndpointSettings<C>,
  { direct, idempotencyKey, transaction, definition }: Submission<C>,
): boolean {
  const { attempts, maxPerOwner, files } = definition
  const needsRecord = idempotencyKey !== undefined || transaction !== undefined || attempts > 1
    || hasSlots(maxPerOwner) || files === true
  return direct && !needsRecord && service.pools.isDirectHere(definition)
    && service.pools.slotsOf(definition).tryAcquire()
}

/** Runs work in the slot that `acquireRunSlot` has acquired. Stops it if the client disconnects. */
export async function runHere<C>(
  settings: EndpointSettings<C>, submission: Submission<C>,
): Promise<HttpResponse> {
  const { directRuns, pools } = settings.service
  const stop = new Stop(submission.request)
  try {
    directRuns.add(stop)
    return await run(settings, submission, stop)
  } finally {
    stop.end()
    directRuns.remove(stop)
    pools.slotsOf(submission.definition).release()
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
  if (isQueueClosing(outcome.reason)) throw stoppedMidway()
  // The client has disconnected, so nobody reads this.
  return empty(503)
}
