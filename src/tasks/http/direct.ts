import { isWorkerClosing } from '../../engine/runs.js'
import type { StoredTask } from '../../engine/task.js'
import { httpError, type HttpError } from '../../http/errors.js'
import type { HttpRequest, HttpResponse } from '../../http/exchange.js'
import { addFailureHeaders } from '../../http/failure.js'
import { empty, errorResponse, jsonText } from '../../http/respond.js'
import { stillRunning } from '../../idempotency/once.js'
import { heapBytesOf } from '../../runtime/json.js'
import type { MaybePromise } from '../../runtime/maybe-promise.js'
import { cancelTask, deleteTask } from '../core/change-task.js'
import { NO_ASK } from '../definition/asks.js'
import { unsavedCheckpoint } from '../definition/json-values.js'
import { resultText, toTaskError } from '../record/view.js'
import { pausesWait, waitFor, type WaiterSlot } from '../record/subscriptions.js'
import { shuttingDown } from '../run/failure.js'
import { validInput } from '../../schema/schema.js'
import { NO_FILES } from '../definition/file-content.js'
import { errorOf, holdInput, runOnce, RunContext, Stop, type Outcome } from '../run/run.js'
import type { AcceptedTask } from '../core/accept-task.js'
import { acceptedResponse, type RequestSubmission, type Submitter } from './accept.js'
import type { EndpointSettings } from './settings.js'
import { setGlobalTimeout } from '../../runtime/timers.js'
import { detailsOf } from '../record/details.js'

/** Time for a run to end after its time limit, in milliseconds. */
const KEEP_ALIVE_MARGIN_MS = 2000

/** Acquires a place for a run without a task. Returns `undefined` if the work has to become a task. */
export function acquireRunPlace<C>(
  { core }: EndpointSettings<C>, { idempotency, runTransaction, definition, input }: RequestSubmission<C>,
): { release(): void } | undefined {
  const { attempts, maxPerOwner, files, cancel, pool, asks, onFailed } = definition
  const needsTask = idempotency !== undefined || runTransaction !== undefined || attempts > 1
    || (maxPerOwner ?? Infinity) !== Infinity || files === true || cancel !== undefined
    || asks !== undefined || onFailed !== undefined || core.settings.limits.has(pool)
  if (needsTask) return undefined
  const places = core.directPlacesOf(pool)
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

/** Runs work in its place, which it releases. Stops the work if the client disconnects. */
export async function runHere<C>(
  { core: { directRuns, settings: { maxResultBytes, tracing } }, syncTimeoutMs }: EndpointSettings<C>,
  { definition, input, owner, context: ownContext, submitter: { request } }: RequestSubmission<C>, place: { release(): void },
): Promise<HttpResponse> {
  const stop = new Stop(request)
  // Keeps the process alive while a request waits, even if no socket does.
  const keepAlive = setGlobalTimeout(() => undefined, syncTimeoutMs + KEEP_ALIVE_MARGIN_MS)
  try {
    const context = new RunContext({
      taskId: undefined, attempt: 1, lastAttempt: true, workId: undefined, owner, external: undefined,
      context: ownContext,
      progress: () => undefined, log: () => undefined, checkpoint: unsavedCheckpoint(definition), files: NO_FILES,
      ask: NO_ASK,
    }, stop)
    const options = { stop, timeoutMs: Math.min(definition.timeoutMs, syncTimeoutMs), maxResultBytes }
    const run = (): MaybePromise<Outcome> => runOnce(definition, options, async () => (
      definition.run(definition.input ? await validInput(definition.input, input) : input, context)
    ))
    const { name } = definition
    const outcome = await directRuns.perform(stop, async () => (
      tracing ? tracing.run({ name, attempt: 1 }, run, errorOf) : run()
    ))
    if (outcome.kind === 'completed') return result(outcome.result)
    if (outcome.kind === 'failed') {
      const isOurTimeout = outcome.timedOut && definition.timeoutMs > syncTimeoutMs
      throw isOurTimeout ? tookTooLong(outcome.cause) : outcome.cause
    }
    if (isWorkerClosing(outcome.reason)) throw stoppedMidway()
    return empty(503)
  } finally {
    clearTimeout(keepAlive)
    stop.end()
    place.release()
  }
}

/** Acquires the slot of a request that will wait; `undefined` if its client has disconnected. */
export function acquireWaiterSlot<C>(
  { core }: EndpointSettings<C>, { request, caller }: Submitter<C>,
): WaiterSlot | undefined {
  const slot = core.waiters.tryAcquire(request.signal, caller)
  if (slot || request.signal.aborted) return slot
  if (core.isClosing) throw shuttingDown()
  throw httpError(core.waiters.isFullFor(caller) ? 'too_many_requests' : 'overloaded', {
    headers: { 'retry-after': '1' },
  })
}

/** @param given - slot that the request already has, because it asked for a synchronous response */
export async function respondWithEnd<C>(
  settings: EndpointSettings<C>, submitter: Submitter<C>, accepted: AcceptedTask,
  given: WaiterSlot | undefined,
): Promise<HttpResponse> {
  const slot = given ?? acquireWaiterSlot(settings, submitter)
  if (!slot) return empty(503)
  try {
    return await (isTemporary(settings, accepted.task)
      ? respondTemporary(settings, submitter, accepted.task, slot)
      : respondWithResult(settings, submitter, accepted, slot))
  } finally {
    slot.release()
  }
}

/**
 * Returns true if only this request knows the task. Then the task has no key, and neither files nor
 * questions, which a client may read later. No transaction of the application has stored its id.
 */
function isTemporary<C>({ core }: EndpointSettings<C>, task: StoredTask): boolean {
  const { files, asks } = core.definition(task.name) ?? {}
  return task.key === undefined && detailsOf(task).isTransactional !== true
    && files !== true && asks === undefined
}

/**
 * Responds to the only request that knows the task. The task ends with this request, and is
 * deleted.
 */
async function respondTemporary<C>(
  settings: EndpointSettings<C>, { request }: Submitter<C>, task: StoredTask, slot: WaiterSlot,
): Promise<HttpResponse> {
  const { core, syncTimeoutMs } = settings
  const end = await waitForEnd(settings, task, slot.signal, syncTimeoutMs)
    ?? (await cancelTask(core, task.id, 'all'))?.task
  await deleteTask(core, task.id, 'all').catch(() => undefined)
  if (end?.status !== 'cancelled') return responseOf(request, end)
  if (request.signal.aborted) return empty(503)
  const hasBegun = end.startedAt !== undefined
  if (core.isClosing) throw hasBegun ? stoppedMidway() : shuttingDown()
  if (hasBegun) throw tookTooLong()
  const message = 'No slot was free for this work in time; nothing was done.'
  throw httpError('sync_timeout', { message, headers: { 'retry-after': '1' } })
}

/** The task continues if the client disconnects or the time is over. */
async function respondWithResult<C>(
  settings: EndpointSettings<C>, { request, isDirect, waitSeconds }: Submitter<C>,
  { task, created }: AcceptedTask, slot: WaiterSlot,
): Promise<HttpResponse> {
  const waitMs = isDirect ? settings.syncTimeoutMs : waitSeconds * 1000
  const end = pausesWait(task) ? task : await waitForEnd(settings, task, slot.signal, waitMs)
  if (end?.status === 'input_required') {
    return acceptedResponse(settings, request, { task: end, created }, undefined)
  }
  if (end) {
    return responseOf(request, end, {
      ...!created && { 'idempotent-replayed': 'true' },
      ...detailsOf(end).blobs && { location: settings.path.location(request.mountPath, end.id) },
    })
  }
  if (request.signal.aborted) return empty(503)
  if (settings.core.isClosing) throw shuttingDown()
  if (!isDirect) throw stillRunning()
  const continues = 'The work is not done yet, and continues: '
  if (request.headers['idempotency-key'] !== undefined) {
    const message = `${continues}send the same request with the same Idempotency-Key to get its result.`
    throw httpError('sync_timeout', { message, headers: { 'retry-after': '1' } })
  }
  // No Retry-After, because a retry without a key would be another task.
  const location = settings.path.location(request.mountPath, task.id)
  const message = `${continues}${location} shows its result.`
  throw httpError('sync_timeout', { message, headers: { location } })
}

async function waitForEnd<C>(
  { core }: EndpointSettings<C>, task: StoredTask, signal: AbortSignal, timeoutMs: number,
): Promise<StoredTask | undefined> {
  const end = await waitFor(core.subscriptions, task.id, task, { timeoutMs, signal, until: pausesWait })
  return end && pausesWait(end) ? end : undefined
}

/** Does not throw failures, because the process that ran the task has reported them. */
function responseOf(
  request: HttpRequest, task: StoredTask | undefined, headers: Record<string, string> = {},
): HttpResponse {
  if (!task) throw httpError('task_interrupted')
  if (task.status === 'completed') return result(resultText(task), headers)
  const failure = toTaskError(task)
  addFailureHeaders(failure, headers)
  return errorResponse(failure, request)
}

function result(text: string, headers: Record<string, string> = {}): HttpResponse {
  return jsonText(200, text, { vary: 'Prefer', ...headers })
}

/** Has no Retry-After, because the work may have been done in part. */
function tookTooLong(cause?: unknown): HttpError {
  return httpError('sync_timeout', {
    message: 'The work took too long for a synchronous response and was stopped; part of it may have been done. '
      + 'Send "Prefer: respond-async" to have it done in the background.',
    cause,
  })
}

/** Has no Retry-After, because the work may have been done in part. */
function stoppedMidway(): HttpError {
  return httpError('shutting_down', {
    message: 'The server is shutting down and has stopped this work; part of it may have been done.',
  })
}
