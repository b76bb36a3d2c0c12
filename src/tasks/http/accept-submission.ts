import { isHttpError, httpError } from '../../http/errors.js'
import type { HttpRequest, HttpResponse } from '../../http/exchange.js'
import type { StoredTask } from '../../engine/task.js'
import { stillRunning, toHeld, type AnswerClaim } from '../../idempotency/claim.js'
import { fingerprintOf } from '../../idempotency/fingerprint.js'
import { onceAnswer } from '../../idempotency/once-answer.js'
import { claimKey } from '../../idempotency/scope.js'
import { replay } from '../../idempotency/stored-answer.js'
import { isStoreUnavailable } from '../../stores/store.js'
import type { Start, Submitted } from '../core/accept-task.js'
import { detailsOf } from '../record/details.js'
import { toSnapshot, type TaskSnapshot } from '../record/snapshot.js'
import type { TaskService } from '../core/task-service.js'
import { belongsTo, type OwnerId } from '../record/ids.js'
import type { EndpointSettings } from './endpoint-settings.js'
import { countedAs } from '../../http/requester.js'
import { startFrom } from './start-at.js'
import { discardInput, type Submission } from './submission.js'

/** A submission that has its task. */
export type AcceptedSubmission =
  | AcceptedTask
  /** The task of a direct answer without a key: only this request knows it. */
  | { readonly kind: 'temporary', readonly task: TaskSnapshot }
  /** An earlier request with this key has this answer, and no task. */
  | { readonly kind: 'stored', readonly response: HttpResponse }

/** A task that its client may ask for again. */
export interface AcceptedTask {
  readonly kind: 'task'
  readonly task: TaskSnapshot
  /** `true` if the first request with this key asked for a direct answer. */
  readonly direct: boolean
  /** `true` if an earlier request has started the task. */
  readonly replayed: boolean
}

/**
 * Accepts a submission. Requests with the same Idempotency-Key get the same task, so the work runs
 * once and does not depend on the connection.
 *
 * @throws {HttpError} What `acceptTask` throws. The input is discarded then, unless a task may use
 * it.
 */
export async function acceptSubmission<C>(
  settings: EndpointSettings<C>, submission: Submission<C>,
): Promise<AcceptedSubmission> {
  const { request, requester, definition, input, json, callbackUrl, direct } = submission
  const { service } = settings
  let isOffered = false
  try {
    const idempotency = idempotencyOf(submission)
    const earlier = idempotency && await findEarlier(settings, submission, idempotency.key)
    if (earlier) {
      await discardInput(submission)
      return earlier
    }
    const start = submission.start && await startOf(service, submission)
    const submitted: Submitted = {
      owner: requester.owner, caller: countedAs(request, requester.owner), isRequest: true,
      context: settings.context(request), callbackUrl, start, idempotency, json,
    }
    isOffered = true
    const { task, created } = await service.accept(definition, input, submitted)
    if (!created) await discardInput(submission)
    // A client may read the files after the response.
    if (idempotency === undefined && direct && !definition.files) {
      return { kind: 'temporary', task: toSnapshot(task) }
    }
    return toAccepted(task, { direct, replayed: !created })
  } catch (error) {
    if (!isOffered || isRefusal(error)) await discardInput(submission)
    throw error
  }
}

/**
 * Accepts a submission to an endpoint that also works for synchronous requests without a task. If it
 * has a key, it holds the claim of the key meanwhile. So a synchronous request with the same key at
 * the same moment either finds the task, or is the one that does the work.
 *
 * @throws {HttpError} What `acceptSubmission` throws, and 409 `idempotent_request_running`.
 */
export async function acceptUnderClaim<C>(
  settings: EndpointSettings<C>, submission: Submission<C>,
): Promise<AcceptedSubmission> {
  const { request, requester: { owner } } = submission
  const idempotency = idempotencyOf(submission)
  if (idempotency === undefined) return acceptSubmission(settings, submission)
  const { service: { store, retentionMs, maxResultBytes: maxBytes }, syncTimeoutMs } = settings
  const { key, fingerprint } = idempotency
  let accepting: Promise<AcceptedSubmission> | undefined
  try {
    const response = await onceAnswer(request, {
      store, key, fingerprint, waitMs: syncTimeoutMs, retentionMs, maxBytes,
      owner: countedAs(request, owner),
    }, async () => {
      accepting = acceptSubmission(settings, submission)
      // The task keeps the key, so the claim is released, whatever the outcome is.
      await accepting.catch(() => undefined)
      return undefined
    })
    if (response) {
      await discardInput(submission)
      return { kind: 'stored', response }
    }
  } catch (error) {
    await discardInput(submission)
    throw error
  }
  return accepting ?? acceptSubmission(settings, submission)
}

/**
 * Returns the start of a task that is about to be accepted.
 *
 * @throws {HttpError} 422 `start_at_out_of_range`
 */
export async function startOf<C>(
  service: TaskService, { start, body }: Submission<C>,
): Promise<Start | undefined> {
  return start && startFrom(start, body, await service.now())
}

/** Returns the Idempotency-Key of a submission in its scope, and the digest of the request. */
export function idempotencyOf<C>(
  { request, requester: { owner }, idempotencyKey, body, direct }: Submission<C>,
): Submitted['idempotency'] {
  return idempotencyKey === undefined ? undefined : {
    key: claimKey(request, owner, idempotencyKey),
    fingerprint: requestFingerprint(request, body), isDirect: direct,
  }
}

/**
 * Returns what an earlier request with the key has started. A submission for later is looked up
 * before its start is checked, because that may be in the past now. Other handlers may have stored a
 * response for the key.
 */
async function findEarlier<C>(
  { service }: EndpointSettings<C>,
  { requester: { owner }, start, body, request, claimsKey }: Submission<C>, key: string,
): Promise<AcceptedSubmission | undefined> {
  // A submission that claims its key has the claim by now.
  const entry = claimsKey ? undefined : await service.store.get(key)
  if (entry) return readClaim(toHeld(entry).claim, requestFingerprint(request, body))
  return start && findTask(service, key, owner, requestFingerprint(request, body))
}

/** Returns the task that an earlier request with a key has started. */
export async function findTask(
  service: TaskService, key: string, owner: OwnerId, fingerprint: string,
): Promise<AcceptedTask | undefined> {
  const task = await service.core.engine.readByKey(key)
  if (!task || !belongsTo(task, owner)) return undefined
  if (detailsOf(task).fingerprint !== fingerprint) throw httpError('idempotency_key_reused')
  return toAccepted(task, { direct: false, replayed: true })
}

/** @param now - `direct`: this request asks for a synchronous response */
export function toAccepted(
  task: StoredTask, now: { readonly direct: boolean, readonly replayed: boolean },
): AcceptedTask {
  // The first request with a key decides.
  const direct = task.key === undefined ? now.direct : detailsOf(task).isDirect === true
  return { kind: 'task', task: toSnapshot(task), direct, replayed: now.replayed }
}

/** Returns the stored response of an earlier request with the same key. */
function readClaim(claim: AnswerClaim, fingerprint: string): AcceptedSubmission {
  if (claim.fingerprint !== fingerprint) throw httpError('idempotency_key_reused')
  if (!claim.answer) throw stillRunning()
  return { kind: 'stored', response: replay(claim.answer) }
}

/**
 * Returns the fingerprint of a request. The query counts too, because it may change the meaning.
 */
export function requestFingerprint(request: HttpRequest<unknown>, body: unknown): string {
  return fingerprintOf([request.search ?? request.query.toString(), body])
}

/** Returns whether an error says that no task was created. */
function isRefusal(error: unknown): boolean {
  return isHttpError(error) || error instanceof TypeError
    || isStoreUnavailable(error) && error.reason === 'full'
}
