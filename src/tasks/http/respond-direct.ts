import { httpError, type HttpError } from '../../http/errors.js'
import type { HttpRequest, HttpResponse } from '../../http/exchange.js'
import { addFailureHeaders } from '../../http/failure.js'
import { empty, jsonText } from '../../http/respond.js'
import { isQueueClosing } from '../../queues/queue.js'
import type { Accepted } from '../intake/accept.js'
import type { TaskSnapshot } from '../record/codec.js'
import { shuttingDown } from '../run/direct-runs.js'
import type { EndpointSettings } from './endpoint-settings.js'
import { belongsTo, everybodys } from '../record/owner-rules.js'
import { countedAs } from './requester.js'
import type { Asked } from './respond-async.js'
import { runOnce } from '../run/run.js'
import { isFinal } from '../record/state.js'
import { Stop } from '../run/stop.js'
import type { Submission } from './submission.js'
import { resultText, toTaskError } from '../record/view.js'
import { waitFor, type WaitingPlace } from '../record/wait.js'

/** What a run may need to end after its time is over, in milliseconds. */
const HOLD_MARGIN_MS = 2000

/**
 * Answers a request without a preference and without an Idempotency-Key with the result of its work
 * (SPEC 4.6 rule 5). The work stops when the client disconnects.
 *
 * It runs here and is not on record, unless `direct` of `createTasks` says otherwise, or all places
 * are taken: then it waits in the queue. Work with several attempts or with a limit for each owner
 * becomes a task in either case, because these are counted on record.
 */
export function respondDirectly<C>(settings: EndpointSettings<C>, submission: Submission<C>): Promise<HttpResponse> {
  const { attempts, maxPerOwner } = submission.definition
  const isCounted = attempts > 1 || maxPerOwner !== undefined
  const here = settings.service.directHere && !isCounted && settings.service.places.take()
  return here ? runHere(settings, submission) : runAsTask(settings, submission)
}

async function runHere<C>(settings: EndpointSettings<C>, submission: Submission<C>): Promise<HttpResponse> {
  const { direct: runs, places } = settings.service
  const stop = new Stop(submission.request)
  try {
    runs.enter(stop)
    return await run(settings, submission, stop)
  } finally {
    runs.leave(stop)
    places.leave()
  }
}

async function run<C>(settings: EndpointSettings<C>, submission: Submission<C>, stop: Stop): Promise<HttpResponse> {
  const { definition, input, requester: { owner }, request } = submission
  const { timeoutMs } = definition
  const { syncTimeoutMs } = settings
  stop.watch()
  // A request that waits holds the process, also where no socket does.
  const hold = setTimeout(() => undefined, syncTimeoutMs + HOLD_MARGIN_MS)
  const outcome = await runOnce(definition, input, {
    taskId: undefined, attempt: 1, lastAttempt: true, owner, context: settings.context(request), progress: () => undefined,
    stop, timeoutMs: Math.min(timeoutMs, syncTimeoutMs), maxResultBytes: settings.service.maxResultBytes,
  })
  clearTimeout(hold)
  if (outcome.kind === 'completed') return direct(outcome.result)
  if (outcome.kind === 'aborted') {
    if (isQueueClosing(outcome.reason)) throw stoppedMidway()
    // The client has gone: nobody reads this.
    return empty(503)
  }
  throw outcome.timedOut && timeoutMs > syncTimeoutMs ? tookTooLong(outcome.cause) : outcome.cause
}

/**
 * As a task that nobody but this request knows of: cancelled when the client disconnects, forgotten
 * once it is answered. No function that waits here holds the input: the queue keeps it as text.
 */
function runAsTask<C>(settings: EndpointSettings<C>, submission: Submission<C>): Promise<HttpResponse> {
  const { request, requester, definition, input } = submission
  const place = enterWaiters(settings, submission)
  if (!place) return Promise.resolve(empty(503))
  const take = async () => settings.service.accept(definition, input, {
    owner: requester.owner, counted: countedAs(requester, request), context: settings.context(request),
  })
  return answerTask(settings, request, place, take())
}

async function answerTask<C>(
  settings: EndpointSettings<C>, request: HttpRequest<C>, place: WaitingPlace, taken: Promise<Accepted>,
): Promise<HttpResponse> {
  const { service } = settings
  try {
    const { task } = await taken
    const end = await waitForEnd(settings, task, place.signal) ?? (await service.cancel(task.id, everybodys))?.task
    await service.delete(task.id, everybodys).catch(() => undefined)
    if (end?.state !== 'cancelled') return answerOf(end)
    if (request.signal.aborted) return empty(503)
    if (service.isClosing) throw hasBegun(end) ? stoppedMidway() : shuttingDown()
    throw hasBegun(end) ? tookTooLong() : notInTime()
  } finally {
    place.leave()
  }
}

/**
 * Answers a request with an Idempotency-Key with the result of its task. The task does not depend
 * on this request, so it goes on when the client disconnects or the time is over.
 *
 * @param waitMs - how long to wait for the end
 * @param late - what to throw when the task has not ended by then
 */
export async function respondWithResult<C>(
  settings: EndpointSettings<C>, request: HttpRequest<C>, task: TaskSnapshot, place: WaitingPlace,
  { replayed, waitMs, late }: { readonly replayed: boolean, readonly waitMs: number, readonly late: () => HttpError },
): Promise<HttpResponse> {
  const end = isFinal(task.state) ? task : await waitForEnd(settings, task, place.signal, waitMs)
  if (!end && request.signal.aborted) return empty(503)
  if (!end) throw settings.service.isClosing ? shuttingDown() : late()
  const headers: Record<string, string> = replayed ? { 'idempotent-replayed': 'true' } : {}
  return answerOf(end, headers)
}

/**
 * Enters a request that will wait for a task, before that is accepted. `undefined` when its client
 * has gone.
 *
 * @throws {HttpError} 503 `shutting_down`, 429 `too_many_requests` when too many requests of this
 * party wait, or 503 `overloaded`
 */
export function enterWaiters<C>({ service }: EndpointSettings<C>, { request, requester }: Asked<C>): WaitingPlace | undefined {
  const counted = countedAs(requester, request)
  const place = service.waiters.enter(request.signal, counted)
  if (place || request.signal.aborted) return place
  if (service.isClosing) throw shuttingDown()
  throw httpError(service.waiters.isFullFor(counted) ? 'too_many_requests' : 'overloaded', { headers: { 'retry-after': '1' } })
}

/** The failure of a keyed request whose work goes on. */
export function comesLater(): HttpError {
  return httpError('sync_timeout', {
    message: 'The work is not done yet and goes on; send the same request with the same Idempotency-Key for its result.',
    headers: { 'retry-after': '1' },
  })
}

/** The task once it is final; `undefined` when that takes too long, or the signal aborts. */
async function waitForEnd<C>(
  { service: { feeds }, syncTimeoutMs }: EndpointSettings<C>, task: TaskSnapshot, signal: AbortSignal, timeoutMs = syncTimeoutMs,
): Promise<TaskSnapshot | undefined> {
  const isVisible = (now: TaskSnapshot) => belongsTo(now, task.owner)
  const end = await waitFor(feeds, task.id, { timeoutMs, signal, isVisible }, true)
  return end && isFinal(end.state) ? end : undefined
}

function answerOf(task: TaskSnapshot | undefined, headers: Record<string, string> = {}): HttpResponse {
  if (!task) throw httpError('task_interrupted')
  if (task.state === 'completed') return direct(resultText(task), headers)
  const failure = toTaskError(task)
  addFailureHeaders(failure, headers)
  throw failure
}

function direct(result: string, headers: Record<string, string> = {}): HttpResponse {
  return jsonText(200, result, { vary: 'Prefer', ...headers })
}

/** Whether a run of it has begun. */
function hasBegun({ face }: TaskSnapshot): boolean {
  return (JSON.parse(face) as { startedAt?: string }).startedAt !== undefined
}

/** Without Retry-After, because the work may have been done in part. */
function tookTooLong(cause?: unknown): HttpError {
  return httpError('sync_timeout', {
    message: 'The work took too long for a direct answer and was stopped; part of it may have been done. '
      + 'Send "Prefer: respond-async" to have it done in the background.',
    cause,
  })
}

function notInTime(): HttpError {
  return httpError('sync_timeout', { message: 'There was no room for this work in time; nothing was done.', headers: { 'retry-after': '1' } })
}

/** Without Retry-After, because the work may have been done in part. */
function stoppedMidway(): HttpError {
  return httpError('shutting_down', { message: 'The server is shutting down and has stopped this work; part of it may have been done.' })
}
