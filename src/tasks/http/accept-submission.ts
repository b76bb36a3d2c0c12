import { isHttpError, httpError } from '../../http/errors.js'
import type { HttpRequest, HttpResponse } from '../../http/exchange.js'
import { stillRunning, type Claim } from '../../idempotency/claim.js'
import { CLAIM_MARGIN_MS, onceTask } from '../../idempotency/once-task.js'
import { fingerprintOf } from '../../idempotency/fingerprint.js'
import { claimKey } from '../../idempotency/scope.js'
import { replay } from '../../idempotency/stored-answer.js'
import { isStoreUnavailable } from '../../stores/store.js'
import type { Start } from '../intake/start-time.js'
import type { Accepted } from '../intake/accept-task.js'
import type { TaskSnapshot } from '../record/codec.js'
import { taskKey } from '../record/ids.js'
import { belongsTo, type OwnerId } from '../record/owner.js'
import type { TaskService } from '../task-service.js'
import type { EndpointSettings } from './endpoint-settings.js'
import { countedAs } from '../../http/counted-as.js'
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
 * Accepts a submission. With an Idempotency-Key, claims the key first: requests with the same key
 * get the same task, so the work runs once and does not depend on the connection.
 *
 * @throws {HttpError} What `acceptTask` and `onceTask` throw. The input is discarded then, unless a
 * task may use it.
 */
export async function acceptSubmission<C>(
  settings: EndpointSettings<C>, submission: Submission<C>,
): Promise<AcceptedSubmission> {
  const { request, requester, definition, input, callbackUrl, idempotencyKey, direct } = submission
  const { service } = settings
  let isInUse = false
  const accept: Accept = async (claimed) => {
    const options = {
      owner: requester.owner, counted: countedAs(request, requester.owner), isRequest: true,
      context: settings.context(request),
      callbackUrl, ...claimed, start: await startOf(service, submission),
    }
    isInUse = true
    return service.accept(definition, input, options)
  }
  try {
    if (idempotencyKey !== undefined) {
      return await acceptOnce(settings, submission, idempotencyKey, accept)
    }
    const { task, created } = await accept()
    // A client may read the files after the answer.
    if (direct && !definition.files) return { kind: 'temporary', task }
    return { kind: 'task', task, direct, replayed: !created }
  } catch (error) {
    if (!isInUse || isRefusal(error)) await discardInput(submission)
    throw error
  }
}

/**
 * Returns the start of a task that is about to be accepted. A retry of an accepted request does not
 * come here, so its start may be in the past.
 *
 * @throws {HttpError} 422 `start_at_out_of_range`
 */
export async function startOf<C>(
  service: TaskService, { start, body }: Submission<C>,
): Promise<Start | undefined> {
  return start && startFrom(start, body, await service.queueTime())
}

type Accept = (claimed?: { readonly id: string, readonly claim: string }) => Promise<Accepted>

/** Accepts the task of an Idempotency-Key, or finds what an earlier request with it has started. */
async function acceptOnce<C>(
  { service }: EndpointSettings<C>, submission: Submission<C>, idempotencyKey: string,
  accept: Accept,
): Promise<AcceptedSubmission> {
  const { request, requester: { owner }, definition, body, direct } = submission
  const key = claimKey(request, owner, idempotencyKey)
  const { claim, taken } = await onceTask(service.store, {
    key, fingerprint: requestFingerprint(request, body), direct, recordKey: taskKey,
    keptMs: service.pendingMs + (definition.retentionMs ?? service.retentionMs) + CLAIM_MARGIN_MS,
  }, (id) => accept({ id, claim: key }))
  if (taken) {
    return {
      kind: 'task',
      task: taken.task,
      direct: claim.kind === 'task' && claim.direct,
      replayed: !taken.created,
    }
  }
  await discardInput(submission)
  return readClaim(service, claim, owner)
}

/** Returns what an earlier request with the same key has started. */
export async function readClaim(
  service: TaskService, claim: Claim, owner: OwnerId,
): Promise<AcceptedSubmission> {
  if (claim.kind === 'answer') {
    if (!claim.answer) throw stillRunning()
    return { kind: 'stored', response: replay(claim.answer) }
  }
  const task = await service.read(claim.taskId)
  if (task && belongsTo(task, owner)) {
    return { kind: 'task', task, direct: claim.direct, replayed: true }
  }
  throw claim.accepted ? httpError('idempotent_task_gone') : stillRunning()
}

/**
 * Returns the fingerprint of a request. The query counts too, because it may change the meaning.
 */
export function requestFingerprint(request: HttpRequest<unknown>, body: unknown): string {
  return fingerprintOf([request.search ?? request.query.toString(), body])
}

/** Returns whether an error says that no task was created. */
function isRefusal(error: unknown): boolean {
  if (isHttpError(error)) return error.status < 500 || error.code === 'shutting_down'
  return isStoreUnavailable(error) && error.reason === 'full'
}
