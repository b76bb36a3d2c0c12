import { checkTransaction, type TaskEngine, type Transaction } from '../../engine/engine.js'
import { isFinalStatus } from '../../engine/task.js'
import { httpError, isHttpError } from '../../http/errors.js'
import { readFailure } from '../../http/failure.js'
import type { HttpRequest, HttpResponse, ResponseHeaders } from '../../http/exchange.js'
import { parsePrefer, type Preferences } from '../../http/headers/prefer.js'
import { countedAs } from '../../http/requester.js'
import { parseIdempotencyKey } from '../../idempotency/key.js'
import {
  claimRecord, isDecided, replay, stillRunning, type ClaimRecord, type KeyClaim, type OnceOptions,
} from '../../idempotency/once.js'
import type { MaybePromise } from '../../runtime/maybe-promise.js'
import { newId } from '../../runtime/random-id.js'
import { isStoreUnavailable } from '../../stores/store.js'
import { waitUntil } from '../../stores/watched.js'
import { acceptTask, type AcceptedTask, type RequestKey, type Submission } from '../core/accept-task.js'
import type { TaskCore } from '../core/task-core.js'
import { detailsOf } from '../record/details.js'
import { pollAfter } from './formats.js'
import type { EndpointSettings, ReadWork, SubmitTransaction } from './settings.js'
import type { FindStartTime } from './start-at.js'

/** A request and what its headers say. Each of them is read once for a request. */
export interface RequestHead<C> {
  readonly request: HttpRequest<C>
  /** Owner of the tasks of the request. */
  readonly owner: string | undefined
  /** Caller that limits count the request for. */
  readonly caller: string
  readonly prefer: Preferences
  /** The Idempotency-Key. */
  readonly key: string | undefined
}

/** A request without its input, and the response that it asks for. */
export interface Submitter<C> extends Pick<RequestHead<C>, 'request' | 'owner' | 'caller'> {
  /** `true` if the response is the result, not a 202. */
  readonly isDirect: boolean
  /** `true` if the client asked for a 202 by `respond-async`. */
  readonly respondAsync: boolean
  readonly waitSeconds: number
}

/** A submission of a request, with the checks and actions that depend on it. */
export interface RequestSubmission<C> extends Submission {
  readonly submitter: Submitter<C>
  /** Checks the start that the client asks for, by the time of the engine. */
  readonly findStart: FindStartTime | undefined
  /** Input of the request, which is discarded if no task will use it. */
  readonly work: ReadWork
  /** Runs a transaction of the application, in which the task is created. */
  readonly runTransaction: SubmitTransaction<C> | undefined
}

/** The task of a request. `created` is `false` if an earlier request has created it. */
export type TaskOfRequest = Pick<AcceptedTask, 'task' | 'created'>

/** A task, or the response of an earlier request with the same key that has no task. */
export type AcceptedSubmission = AcceptedTask | HttpResponse

/** Calls `owner` of the application. Throws 401 `unauthorized` or 400 `invalid_idempotency_key`. */
export function readHead<C>(
  { requester }: EndpointSettings<C>, request: HttpRequest<C>,
  prefer: Preferences = parsePrefer(request.headers.prefer),
): RequestHead<C> {
  const { owner } = requester(request)
  const key = parseIdempotencyKey(request.headers['idempotency-key'])
  return { request, owner, caller: countedAs(request, owner), prefer, key }
}

/** Discards input that no task will use. Never rejects, because input that is left expires. */
export async function discardInput(work: ReadWork): Promise<void> {
  try {
    await work.discard?.()
  } catch {
    // It expires.
  }
}

/** Accepts a submission. Discards its input unless a task may use it. */
export function accept<C>(
  settings: EndpointSettings<C>, submission: RequestSubmission<C>,
): MaybePromise<AcceptedSubmission> {
  const { idempotency, findStart, work, runTransaction } = submission
  if (runTransaction !== undefined) return acceptInTransaction(settings, submission, runTransaction)
  return idempotency === undefined && findStart === undefined && work.discard === undefined
    ? acceptTask(settings.core, submission) : acceptUnlessEarlier(settings, submission)
}

/** The same for a request that may repeat an earlier one, asks for a start, or has input to discard. */
async function acceptUnlessEarlier<C>(
  settings: EndpointSettings<C>, submission: RequestSubmission<C>,
): Promise<AcceptedSubmission> {
  const { core } = settings
  const { idempotency, findStart, work } = submission
  let isOffered = false
  try {
    const earlier = idempotency && await findEarlier(settings, submission, idempotency)
    if (earlier) {
      await discardInput(work)
      return earlier
    }
    const start = findStart?.(await core.engine.now())
    isOffered = true
    const accepted = await acceptTask(core, submission, start)
    if (!accepted.created) await discardInput(work)
    return accepted
  } catch (error) {
    if (!isOffered || createdNothing(error)) await discardInput(work)
    throw error
  }
}

/** Looks for an earlier request first, because the requested start may be in the past now. */
async function findEarlier<C>(
  settings: EndpointSettings<C>, submission: RequestSubmission<C>, { key, fingerprint }: RequestKey,
): Promise<AcceptedSubmission | undefined> {
  const { core } = settings
  const { owner, findStart } = submission
  const record = claimRecord(core.settings.store, key)
  const earlier = await record.read()
  if (earlier && earlier.fingerprint !== fingerprint) throw httpError('idempotency_key_reused')
  const claim = earlier && await decided(settings, submission, record)
  if (!claim) return findStart && findTask(core, key, owner, fingerprint)
  if (!claim.response) throw stillRunning()
  return replay(claim.response)
}

/** Waits for the response of a synchronous request, which may also release its key. */
async function decided<C>(
  { core, syncTimeoutMs }: EndpointSettings<C>, { idempotency, submitter }: RequestSubmission<C>,
  record: ClaimRecord,
): Promise<KeyClaim | undefined> {
  const claim = record.value
  if (idempotency?.isShared !== true || isDecided(claim)) return claim
  const slot = core.waiters.tryAcquire(submitter.request.signal, submitter.caller)
  if (!slot) return claim
  try {
    return await waitUntil(record, isDecided, { timeoutMs: syncTimeoutMs, signal: slot.signal })
  } finally {
    slot.release()
  }
}

export async function findTask(
  core: TaskCore, key: string, owner: string | undefined, fingerprint: string,
): Promise<AcceptedTask | undefined> {
  const task = await core.engine.readByKey(key)
  if (task?.owner !== owner || !task) return undefined
  if (detailsOf(task).fingerprint !== fingerprint) throw httpError('idempotency_key_reused')
  return { task, created: false, replaced: false }
}

function createdNothing(error: unknown): boolean {
  return isHttpError(error) || error instanceof TypeError
    || isStoreUnavailable(error) && error.reason === 'full'
}

export function onceOptions<C>(
  { core, syncTimeoutMs: waitMs }: EndpointSettings<C>, key: string, fingerprint: string,
  caller: string,
): OnceOptions {
  const { store, retentionMs, maxResultBytes: maxBytes } = core.settings
  return { store, key, fingerprint, waitMs, retentionMs, maxBytes, caller }
}

/**
 * Turns a lost connection of the application into a failure of the engine, unless the error has a
 * status.
 */
function transactionError(engine: TaskEngine, error: unknown): unknown {
  const isUnknown = !isHttpError(error) && readFailure(error).status === 500
  return isUnknown ? engine.transactionError?.(error) ?? error : error
}

/**
 * Accepts a submission in a transaction of the application, whose `submit` rejects if an earlier request with
 * the key commits meanwhile: roll back.
 */
async function acceptInTransaction<C>(
  settings: EndpointSettings<C>, submission: RequestSubmission<C>, run: SubmitTransaction<C>,
): Promise<AcceptedSubmission> {
  const { core } = settings
  const { submitter: { request }, owner, input, idempotency, findStart } = submission
  const committed = idempotency
    && await findTask(core, idempotency.key, owner, idempotency.fingerprint)
  if (committed) return committed
  const id = newId()
  let accepted: AcceptedTask | undefined
  const submit = async (transaction: Transaction): Promise<{ readonly taskId: string }> => {
    checkTransaction('submit', transaction)
    const start = findStart?.(await core.engine.now())
    accepted = await acceptTask(core, { ...submission, id, birth: id, transaction }, start)
    if (accepted.created) return { taskId: id }
    throw new Error('An earlier request with this Idempotency-Key has committed; roll back')
  }
  try {
    await run(request, input, submit)
  } catch (error) {
    if (accepted?.created !== false) throw transactionError(core.engine, error)
    return accepted
  }
  if (accepted === undefined) {
    throw new TypeError('submit: the option transaction must call submit(transaction)')
  }
  const isCommitted = await Promise.resolve(core.read(id)).then(
    (task) => task !== undefined,
    (error: unknown) => {
      // If the engine fails now, trusts the application.
      if (isStoreUnavailable(error)) return true
      throw error
    },
  )
  if (isCommitted) return accepted
  throw new Error(
    'submit: the option transaction has resolved, but its transaction has not committed',
  )
}

/**
 * Returns the 202 of a request that has a task. `preference`: the preferences of `Prefer` that the
 * response has applied.
 */
export function acceptedResponse<C>(
  { path, format }: EndpointSettings<C>, { mountPath }: HttpRequest<C>,
  { task, created }: TaskOfRequest, preference: string | undefined,
): HttpResponse {
  const location = path.location(mountPath, task.id)
  const headers: ResponseHeaders = {
    location, 'vary': 'Prefer', 'content-type': 'application/json', 'content-location': location,
  }
  if (!created) headers['idempotent-replayed'] = 'true'
  if (preference !== undefined) headers['preference-applied'] = preference
  if (!isFinalStatus(task.status)) headers['retry-after'] = pollAfter(task)
  if (format.acceptedHeaders) Object.assign(headers, format.acceptedHeaders(location))
  return { status: 202, headers, body: format.toText(task, location) }
}
