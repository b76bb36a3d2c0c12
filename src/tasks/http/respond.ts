import { isFinalStatus } from '../../engine/task.js'
import { httpError, type HttpError } from '../../http/errors.js'
import type { HttpRequest, HttpResponse, ResponseHeaders } from '../../http/exchange.js'
import { addFailureHeaders } from '../../http/failure.js'
import { empty, errorResponse, jsonText } from '../../http/respond.js'
import { stillRunning } from '../../idempotency/claim.js'
import type { MaybePromise } from '../../runtime/maybe-promise.js'
import { shuttingDown } from '../run/failure.js'
import { allTasks, belongsTo } from '../record/ids.js'
import type { TaskSnapshot } from '../record/snapshot.js'
import { resultText, toTaskError } from '../record/view.js'
import { waitFor, type WaiterSlot } from '../record/subscriptions.js'
import type { AcceptedSubmission, AcceptedTask } from './accept.js'
import { pollAfter } from './formats.js'
import type { EndpointSettings } from './settings.js'
import type { Submitter } from './submission.js'

/**
 * Responds to an accepted submission. The first request with a key decides whether the response is
 * synchronous.
 *
 * @param given - the slot of a request that asked for a synchronous response. It is released here.
 */
export function respond<C>(
  settings: EndpointSettings<C>, submitter: Submitter<C>, accepted: AcceptedSubmission,
  given?: WaiterSlot,
): MaybePromise<HttpResponse> {
  const isDone = accepted.kind === 'stored'
  if (!isDone && (accepted.kind === 'temporary' || accepted.direct)) {
    return respondDirect(settings, submitter, accepted, given)
  }
  given?.release()
  return isDone ? accepted.response : respondAccepted(settings, submitter, accepted)
}

async function respondDirect<C>(
  settings: EndpointSettings<C>, submitter: Submitter<C>,
  accepted: Exclude<AcceptedSubmission, { readonly kind: 'stored' }>, given: WaiterSlot | undefined,
): Promise<HttpResponse> {
  // A request for a 202 has none, although the first request with its key asked for the result.
  const slot = given ?? acquireWaiterSlot(settings, submitter)
  if (!slot) return empty(503)
  try {
    return await (accepted.kind === 'temporary'
      ? respondTemporary(settings, submitter, accepted.task, slot)
      : respondWithResult(settings, submitter, accepted, slot))
  } finally {
    slot.release()
  }
}

/**
 * Responds to a request whose task was accepted: 202, or, if the task ends within `waitSeconds` (RFC
 * 7240 section 4.3), its result or failure. `Location` names the status resource in each case.
 */
export async function respondAccepted<C>(
  settings: EndpointSettings<C>, submitter: Submitter<C>, { task, replayed }: AcceptedTask,
): Promise<HttpResponse> {
  const { path, format } = settings
  const { request: { mountPath }, direct, respondAsync, waitSeconds } = submitter
  // A synchronous request gets a 202 only if the first request with its key asked for one. It does
  // not wait.
  const wait = waitSeconds === 0 || direct ? undefined : `wait=${waitSeconds}`
  const now = wait === undefined ? task : await waitedFor(settings, submitter, task)
  const location = path.location(mountPath, task.id)
  const headers: ResponseHeaders = { location, vary: 'Prefer' }
  if (replayed) headers['idempotent-replayed'] = 'true'
  if (wait !== undefined && isFinalStatus(now.state)) {
    headers['preference-applied'] = wait
    if (now.state === 'completed') return jsonText(200, resultText(now), headers)
    const failure = toTaskError(now)
    addFailureHeaders(failure, headers)
    throw failure
  }
  if (respondAsync) headers['preference-applied'] = wait ? `respond-async, ${wait}` : 'respond-async'
  if (!isFinalStatus(now.state)) headers['retry-after'] = pollAfter(now)
  headers['content-type'] = 'application/json'
  headers['content-location'] = location
  if (format.acceptedFields) Object.assign(headers, format.acceptedFields(location))
  return { status: 202, headers, body: format.toText(now, location) }
}

async function waitedFor<C>(
  { service }: EndpointSettings<C>, { request, caller, waitSeconds }: Submitter<C>,
  task: TaskSnapshot,
): Promise<TaskSnapshot> {
  const slot = service.waiters.tryAcquire(request.signal, caller)
  if (!slot) return task
  try {
    const isVisible = (now: TaskSnapshot) => belongsTo(now, task.owner)
    const options = { timeoutMs: waitSeconds * 1000, signal: slot.signal, isVisible }
    return await waitFor(service.subscriptions, task.id, options) ?? task
  } finally {
    slot.release()
  }
}

/**
 * Acquires the slot of a request that will wait for its task. Returns `undefined` if its client has
 * disconnected.
 *
 * @throws {HttpError} 503 `shutting_down`, 429 `too_many_requests` if too many requests of this
 * caller wait, or 503 `overloaded`
 */
export function acquireWaiterSlot<C>(
  { service }: EndpointSettings<C>, { request, caller }: Submitter<C>,
): WaiterSlot | undefined {
  const slot = service.waiters.tryAcquire(request.signal, caller)
  if (slot || request.signal.aborted) return slot
  if (service.isClosing) throw shuttingDown()
  throw httpError(service.waiters.isFullFor(caller) ? 'too_many_requests' : 'overloaded', {
    headers: { 'retry-after': '1' },
  })
}

/**
 * Responds to a request without an Idempotency-Key with the result of its task. No other request
 * knows the task: it is cancelled if the client disconnects or the time is over, and deleted once
 * its request has a response.
 */
async function respondTemporary<C>(
  settings: EndpointSettings<C>, { request }: Submitter<C>, task: TaskSnapshot, slot: WaiterSlot,
): Promise<HttpResponse> {
  const { service, syncTimeoutMs } = settings
  const end = await waitForEnd(settings, task, slot.signal, syncTimeoutMs)
    ?? (await service.cancel(task.id, allTasks))?.task
  await service.forget(task.id, allTasks).catch(() => undefined)
  if (end?.state !== 'cancelled') return responseOf(request, end)
  if (request.signal.aborted) return empty(503)
  if (service.isClosing) throw hasBegun(end) ? stoppedMidway() : shuttingDown()
  throw hasBegun(end) ? tookTooLong() : notStartedInTime()
}

/**
 * Responds to a request with an Idempotency-Key, or one whose task was submitted in a transaction of
 * the application or writes files, with the result of its task. `Location` names a task that has
 * files. The task continues if the client disconnects or the time is over.
 */
async function respondWithResult<C>(
  settings: EndpointSettings<C>, { request, direct, waitSeconds }: Submitter<C>,
  { task, replayed }: AcceptedTask, slot: WaiterSlot,
): Promise<HttpResponse> {
  const waitMs = direct ? settings.syncTimeoutMs : waitSeconds * 1000
  const end = isFinalStatus(task.state) ? task : await waitForEnd(settings, task, slot.signal, waitMs)
  if (end) {
    return responseOf(request, end, {
      ...replayed && { 'idempotent-replayed': 'true' },
      ...end.blobs && { location: settings.path.location(request.mountPath, end.id) },
    })
  }
  if (request.signal.aborted) return empty(503)
  if (settings.service.isClosing) throw shuttingDown()
  if (!direct) throw stillRunning()
  if (request.headers['idempotency-key'] !== undefined) throw notDoneYet()
  throw continues(settings.path.location(request.mountPath, task.id))
}

/** Returns the task once it is final; `undefined` if that takes too long or the signal aborts. */
async function waitForEnd<C>(
  { service }: EndpointSettings<C>, { id, owner }: TaskSnapshot, signal: AbortSignal,
  timeoutMs: number,
): Promise<TaskSnapshot | undefined> {
  const isVisible = (now: TaskSnapshot) => belongsTo(now, owner)
  const end = await waitFor(service.subscriptions, id, { timeoutMs, signal, isVisible })
  return end && isFinalStatus(end.state) ? end : undefined
}

/** A failure is not thrown, because the process that ran the task has reported it, with its cause. */
function responseOf(
  request: HttpRequest, task: TaskSnapshot | undefined, headers: Record<string, string> = {},
): HttpResponse {
  if (!task) throw httpError('task_interrupted')
  if (task.state === 'completed') return result(resultText(task), headers)
  const failure = toTaskError(task)
  addFailureHeaders(failure, headers)
  return errorResponse(failure, request)
}

export function result(text: string, headers: Record<string, string> = {}): HttpResponse {
  return jsonText(200, text, { vary: 'Prefer', ...headers })
}

function hasBegun({ text }: TaskSnapshot): boolean {
  return (JSON.parse(text) as { startedAt?: string }).startedAt !== undefined
}

function notDoneYet(): HttpError {
  return httpError('sync_timeout', {
    message: 'The work is not done yet, and continues: '
      + 'send the same request with the same Idempotency-Key to get its result.',
    headers: { 'retry-after': '1' },
  })
}

/**
 * Returns the error of a request without an Idempotency-Key whose task was submitted in a
 * transaction or writes files. Has no Retry-After, because a retry would be another task.
 */
function continues(location: string): HttpError {
  return httpError('sync_timeout', {
    message: `The work is not done yet, and continues: ${location} shows its result.`,
    headers: { location },
  })
}

/** Has no Retry-After, because the work may have been done in part. */
export function tookTooLong(cause?: unknown): HttpError {
  return httpError('sync_timeout', {
    message: 'The work took too long for a synchronous response and was stopped; part of it may have been done. '
      + 'Send "Prefer: respond-async" to have it done in the background.',
    cause,
  })
}

function notStartedInTime(): HttpError {
  return httpError('sync_timeout', {
    message: 'No slot was free for this work in time; nothing was done.', headers: { 'retry-after': '1' },
  })
}

/** Has no Retry-After, because the work may have been done in part. */
export function stoppedMidway(): HttpError {
  return httpError('shutting_down', {
    message: 'The server is shutting down and has stopped this work; part of it may have been done.',
  })
}
