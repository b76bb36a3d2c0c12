import { checkTransaction, type TaskEngine, type Transaction } from '../../engine/engine.js'
import type { StoredTask } from '../../engine/task.js'
import { httpError, isHttpError } from '../../http/errors.js'
import { readFailure } from '../../http/failure.js'
import type { HttpRequest, HttpResponse } from '../../http/exchange.js'
import {
  claimOf, stillRunning, replay, waitForEntry, type OnceOptions,
} from '../../idempotency/once.js'
import type { Json } from '../../runtime/json.js'
import { newId } from '../../runtime/random-id.js'
import { isStoreUnavailable, type Entry } from '../../stores/store.js'
import { acceptTask, type Submitted } from '../core/accept-task.js'
import type { TaskService } from '../core/task-service.js'
import type { AnyTaskDefinition } from '../definition/define.js'
import { detailsOf } from '../record/details.js'
import type { EndpointSettings, SubmitTransaction } from './settings.js'
import type { FindStartTime } from './start-at.js'

/** A request without its input, and the response that it asks for. */
export interface Submitter<C> {
  readonly request: HttpRequest<C>
  readonly owner: string | undefined
  readonly caller: string
  /** `true` if the response is the result, not a 202. */
  readonly direct: boolean
  /** `true` if the client asked for a 202 by `respond-async`. */
  readonly respondAsync: boolean
  readonly waitSeconds: number
}

export interface Submission<C> {
  readonly submitter: Submitter<C>
  readonly definition: AnyTaskDefinition
  readonly input: unknown
  readonly json: Json | undefined
  readonly idempotency: Submitted['idempotency']
  readonly callbackUrl: string | undefined
  /** Checks the start that the client asks for, by the time of the engine. */
  readonly start: FindStartTime | undefined
  /** Discards the input that no task will use. Never rejects. */
  readonly discard: () => Promise<void>
  /** `true` for an endpoint that also works without a task (`respondOnce`). */
  readonly isKeyShared: boolean
  readonly transaction: SubmitTransaction<C> | undefined
}

/** A task, or the response of an earlier request with the same key that has no task. */
export type AcceptedSubmission = AcceptedTask | HttpResponse

export interface AcceptedTask {
  readonly task: StoredTask
  /** `true` if the first request with this key asked for a synchronous response. */
  readonly direct: boolean
  readonly replayed: boolean
  /** `true` if only this request knows the task: it is synchronous, and has no key. */
  readonly isTemporary: boolean
}

type Idempotency = NonNullable<Submission<unknown>['idempotency']>

/** Accepts a submission. Discards its input unless a task may use it. */
export function acceptSubmission<C>(
  settings: EndpointSettings<C>, submission: Submission<C>,
): Promise<AcceptedSubmission> {
  const { transaction } = submission
  return transaction
    ? acceptInTransaction(settings, submission, transaction) : accept(settings, submission)
}

async function accept<C>(
  settings: EndpointSettings<C>, submission: Submission<C>,
): Promise<AcceptedSubmission> {
  const { service: { core } } = settings
  const { definition, input, idempotency, start, discard, submitter: { direct } } = submission
  let isOffered = false
  try {
    const earlier = idempotency && await findEarlier(settings, submission, idempotency)
    if (earlier) {
      await discard()
      return earlier
    }
    const startsAt = start?.(await core.engine.now())
    const submitted = submittedOf(settings, submission, { start: startsAt })
    isOffered = true
    const { task, created } = await acceptTask(core, definition, input, submitted)
    if (!created) await discard()
    // A client may read the files after the response.
    const isTemporary = direct && idempotency === undefined && !definition.files
    return toAccepted(task, direct, !created, isTemporary)
  } catch (error) {
    if (!isOffered || createdNothing(error)) await discard()
    throw error
  }
}

/** One literal with all properties, because a spread would cost a quarter of an accept (ADR 41). */
function submittedOf<C>(
  { context }: EndpointSettings<C>,
  { submitter: { request, owner, caller }, json, callbackUrl, idempotency }: Submission<C>,
  { start, id, birth, transaction }: Pick<Submitted, 'start' | 'id' | 'birth' | 'transaction'>,
): Submitted {
  return {
    id, birth, owner, caller, isRequest: true, start, priority: undefined,
    context: context?.(request), callbackUrl, json, idempotency, transaction,
  }
}

/** Looks for an earlier request first, because its start may be in the past now. */
async function findEarlier<C>(
  settings: EndpointSettings<C>, submission: Submission<C>, { key, fingerprint }: Idempotency,
): Promise<AcceptedSubmission | undefined> {
  const { service } = settings
  const { submitter: { owner }, start } = submission
  const earlier = await service.settings.store.get(key)
  if (earlier && claimOf(earlier).fingerprint !== fingerprint) throw httpError('idempotency_key_reused')
  const entry = earlier && await decided(settings, submission, key, earlier)
  if (!entry) return start && findTask(service, key, owner, fingerprint)
  const { response } = claimOf(entry)
  if (!response) throw stillRunning()
  return replay(response)
}

/** Waits for the response of a synchronous request, which may also release its key. */
async function decided<C>(
  { service, syncTimeoutMs }: EndpointSettings<C>, { isKeyShared, submitter }: Submission<C>,
  key: string, entry: Entry,
): Promise<Entry | undefined> {
  const isDecided = (now: Entry | undefined): boolean => !now || claimOf(now).response !== undefined
  if (!isKeyShared || isDecided(entry)) return entry
  const slot = service.waiters.tryAcquire(submitter.request.signal, submitter.caller)
  if (!slot) return entry
  try {
    return await waitForEntry(service.settings.store, key, isDecided, syncTimeoutMs, slot.signal)
  } finally {
    slot.release()
  }
}

export async function findTask(
  service: TaskService, key: string, owner: string | undefined, fingerprint: string,
): Promise<AcceptedTask | undefined> {
  const task = await service.core.engine.readByKey(key)
  if (task?.owner !== owner || !task) return undefined
  if (detailsOf(task).fingerprint !== fingerprint) throw httpError('idempotency_key_reused')
  return toAccepted(task, false, true)
}

/** @param asksDirect - `true` if this request asks for a synchronous response */
function toAccepted(
  task: StoredTask, asksDirect: boolean, replayed: boolean, isTemporary = false,
): AcceptedTask {
  // The first request with a key decides.
  const direct = task.key === undefined ? asksDirect : detailsOf(task).isDirect === true
  return { task, direct, replayed, isTemporary }
}

function createdNothing(error: unknown): boolean {
  return isHttpError(error) || error instanceof TypeError
    || isStoreUnavailable(error) && error.reason === 'full'
}

export function onceOptions<C>(
  { service, syncTimeoutMs: waitMs }: EndpointSettings<C>, key: string, fingerprint: string,
  owner: string,
): OnceOptions {
  const { store, retentionMs, maxResultBytes: maxBytes } = service.settings
  return { store, key, fingerprint, waitMs, retentionMs, maxBytes, owner }
}

/** Shows a lost connection of the application as a failure of the engine, unless it has a status. */
function transactionError(engine: TaskEngine, error: unknown): unknown {
  const isUnknown = !isHttpError(error) && readFailure(error).status === 500
  return isUnknown ? engine.transactionError?.(error) ?? error : error
}

/** `submit` rejects if an earlier request with the key commits meanwhile: roll back. */
async function acceptInTransaction<C>(
  settings: EndpointSettings<C>, submission: Submission<C>, run: SubmitTransaction<C>,
): Promise<AcceptedSubmission> {
  const { service } = settings
  const { submitter: { request, owner, direct }, definition, input, idempotency } = submission
  const committed = idempotency
    && await findTask(service, idempotency.key, owner, idempotency.fingerprint)
  if (committed) return committed
  const id = newId()
  let accepted: Awaited<ReturnType<typeof acceptTask>> | undefined
  const submit = async (transaction: Transaction): Promise<{ readonly taskId: string }> => {
    checkTransaction('submit', transaction)
    const start = submission.start?.(await service.core.engine.now())
    const submitted = submittedOf(settings, submission, { start, id, birth: id, transaction })
    accepted = await acceptTask(service.core, definition, input, submitted)
    if (accepted.created) return { taskId: id }
    throw new Error('An earlier request with this Idempotency-Key has committed; roll back')
  }
  try {
    await run(request, input, submit)
  } catch (error) {
    if (accepted?.created !== false) throw transactionError(service.core.engine, error)
    return toAccepted(accepted.task, direct, true)
  }
  if (accepted === undefined) {
    throw new TypeError('submit: the option transaction must call submit(transaction)')
  }
  const isCommitted = await Promise.resolve(service.read(id)).then(
    (task) => task !== undefined,
    (error: unknown) => {
      // If the engine fails now, trusts the application.
      if (isStoreUnavailable(error)) return true
      throw error
    },
  )
  if (isCommitted) return toAccepted(accepted.task, direct, false)
  throw new Error(
    'submit: the option transaction has resolved, but its transaction has not committed',
  )
}
