import { httpError, type HttpError } from '../../http/errors.js'
import type { HttpRequest, HttpResponse } from '../../http/exchange.js'
import { addFailureHeaders } from '../../http/failure.js'
import { empty, errorResponse, jsonText } from '../../http/respond.js'
import { stillRunning } from '../../idempotency/claim.js'
import type { TaskSnapshot } from '../record/snapshot.js'
import { allTasks, belongsTo } from '../record/ids.js'
import { isFinalStatus } from '../../engine/task.js'
import { resultText, toTaskError } from '../record/view.js'
import { waitFor, type WaiterSlot } from '../record/subscriptions.js'
import { shuttingDown } from '../run/failure.js'
import type { AcceptedTask } from './accept-submission.js'
import type { EndpointSettings } from './endpoint-settings.js'
import { countedAs } from '../../http/requester.js'
import type { Submitter } from './submission.js'

/**
 * Acquires the slot of a request that will wait for its task. Returns `undefined` if its client has
 * disconnected.
 *
 * @throws {HttpError} 503 `shutting_down`, 429 `too_many_requests` if too many requests of this
 * party wait, or 503 `overloaded`
 */
export function acquireWaiterSlot<C>(
  { service }: EndpointSettings<C>, { request, requester }: Submitter<C>,
): WaiterSlot | undefined {
  const counted = countedAs(request, requester.owner)
  const slot = service.waiters.tryAcquire(request.signal, counted)
  if (slot || request.signal.aborted) return slot
  if (service.isClosing) throw shuttingDown()
  throw httpError(service.waiters.isFullFor(counted) ? 'too_many_requests' : 'overloaded', {
    headers: { 'retry-after': '1' },
  })
}

/**
 * Answers a request without an Idempotency-Key with the result of its task. No other request knows
 * the task: it is cancelled if the client disconnects or the time is over, and deleted once it is
 * answered. Releases the slot.
 */
export async function respondTemporary<C>(
  settings: EndpointSettings<C>, { request }: Submitter<C>, task: TaskSnapshot, slot: WaiterSlot,
): Promise<HttpResponse> {
  const { service, syncTimeoutMs } = settings
  try {
    const end = await waitForEnd(settings, task, slot.signal, syncTimeoutMs)
      ?? (await service.cancel(task.id, allTasks))?.task
    await service.forget(task.id, allTasks).catch(() => undefined)
    if (end?.state !== 'cancelled') return answerOf(request, end)
    if (request.signal.aborted) return empty(503)
    if (service.isClosing) throw hasBegun(end) ? stoppedMidway() : shuttingDown()
    throw hasBegun(end) ? tookTooLong() : notStartedInTime()
  } finally {
    slot.release()
  }
}

/**
 * Answers a request with an Idempotency-Key, or one whose task was submitted in a transaction of
 * the host or writes files, with the result of its task. `Location` names a task that has files.
 * The task continues if the client disconnects or the time is over. Releases the slot; acquires one if there is none, because
 * this request asked for a 202 but the first request with its key asked for the result.
 */
export async function respondWithResult<C>(
  settings: EndpointSettings<C>, submitter: Submitter<C>, { task, replayed }: AcceptedTask,
  given: WaiterSlot | undefined,
): Promise<HttpResponse> {
  const { request, direct, waitSeconds } = submitter
  const slot = given ?? acquireWaiterSlot(settings, submitter)
  if (!slot) return empty(503)
  try {
    const waitMs = direct ? settings.syncTimeoutMs : waitSeconds * 1000
    const end = isFinalStatus(task.state) ? task : await waitForEnd(settings, task, slot.signal, waitMs)
    if (end) {
      return answerOf(request, end, {
        ...replayed && { 'idempotent-replayed': 'true' },
        ...end.blobs && { location: settings.path.location(request.mountPath, end.id) },
      })
    }
    if (request.signal.aborted) return empty(503)
    if (settings.service.isClosing) throw shuttingDown()
    if (!direct) throw stillRunning()
    if (request.headers['idempotency-key'] !== undefined) throw notDoneYet()
    throw continues(settings.path.location(request.mountPath, task.id))
  } finally {
    slot.release()
  }
}

/** Returns the task once it is final; `undefined` if that takes too long or the signal aborts. */
async function waitForEnd<C>(
  { service }: EndpointSettings<C>, { id, owner }: TaskSnapshot, signal: AbortSignal,
  timeoutMs: number,
): Promise<TaskSnapshot | undefined> {
  const isVisible = (now: TaskSnapshot) => belongsTo(now, owner)
  const end = await waitFor(service.subscriptions, id, { timeoutMs, signal, isVisible }, true)
  return end && isFinalStatus(end.state) ? end : undefined
}

/** A failure is not thrown, because the process that ran the task has reported it, with its cause. */
function answerOf(
  request: HttpRequest, task: TaskSnapshot | undefined, headers: Record<string, string> = {},
): HttpResponse {
  if (!task) throw httpError('task_interrupted')
  if (task.state === 'completed') return result(resultText(task), headers)
  const failure = toTaskError(task)
  addFailureHeaders(failure, headers)
  return errorResponse(failure, request)
}

/** Returns the direct answer with the result of its work. */
export function result(text: string, headers: Record<string, string> = {}): HttpResponse {
  return jsonText(200, text, { vary: 'Prefer', ...headers })
}

/** Returns whether a run of the task has begun. */
function hasBegun({ text }: TaskSnapshot): boolean {
  return (JSON.parse(text) as { startedAt?: string }).startedAt !== undefined
}

/** Returns the error of a request whose work continues. */
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
    message: 'The work took too long for a direct answer and was stopped; part of it may have been done. '
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
