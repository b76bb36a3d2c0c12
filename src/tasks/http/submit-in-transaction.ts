import type { Claim } from '../../idempotency/claim.js'
import { CLAIM_MARGIN_MS, type TaskClaimOptions } from '../../idempotency/once-task.js'
import { claimKey } from '../../idempotency/scope.js'
import { claimInTransaction, findClaim } from '../../idempotency/transaction-claim.js'
import { newId } from '../../runtime/random-id.js'
import { isStoreUnavailable } from '../../stores/store.js'
import type { Transaction } from '../../stores/transaction.js'
import { snapshotOf, type TaskSnapshot } from '../record/codec.js'
import { taskKey } from '../record/ids.js'
import { readClaim, requestFingerprint, startOf, type AcceptedSubmission } from './accept-submission.js'
import type { EndpointSettings } from './endpoint-settings.js'
import { countedAs } from '../../http/counted-as.js'
import { discardInput, type Submission } from './submission.js'
import type { SubmitTransaction } from './submit-endpoint-options.js'

/**
 * Accepts a submission in a transaction that the host opens and ends. The claim of the
 * Idempotency-Key, the record of the task and the rows of the host commit together.
 *
 * If an earlier request with the key has committed, `run` is not called. If that request commits
 * while `run` is active, `submit` rejects, so that the host rolls back, and the answer is the same.
 *
 * @param run - the option `transaction` of the endpoint
 * @throws {HttpError} What `acceptInTransaction` throws; 422 `idempotency_key_reused`, 409
 * `idempotent_request_running`
 * @throws What `run` rejects with
 */
export async function submitInTransaction<C>(
  settings: EndpointSettings<C>, submission: Submission<C>, run: SubmitTransaction<C>,
): Promise<AcceptedSubmission> {
  const { service } = settings
  const { request, requester: { owner }, input, direct, idempotencyKey } = submission
  const keyOptions = idempotencyKey === undefined
    ? undefined : claimOptions(settings, submission, idempotencyKey)
  const committed = keyOptions && await findClaim(service.store, keyOptions)
  const attempt = new TransactionSubmit(settings, submission, keyOptions)
  if (!committed) await attempt.perform(() => run(request, input, attempt.submit))
  const earlier = committed ?? attempt.earlier
  if (!earlier) {
    return { kind: 'task', task: await attempt.confirm(), direct, replayed: false }
  }
  await discardInput(submission)
  return readClaim(service, earlier, owner)
}

function claimOptions<C>(
  { service }: EndpointSettings<C>, submission: Submission<C>, idempotencyKey: string,
): TaskClaimOptions {
  const { request, requester: { owner }, definition, body, direct } = submission
  return {
    key: claimKey(request, owner, idempotencyKey),
    fingerprint: requestFingerprint(request, body), direct, recordKey: taskKey,
    keptMs: service.pendingMs + (definition.retentionMs ?? service.retentionMs) + CLAIM_MARGIN_MS,
  }
}

/**
 * The submit of one request. The host calls it in its transaction, and again if it retries the
 * transaction.
 */
class TransactionSubmit<C> {
  /** The claim of an earlier request with the same key, which has committed meanwhile. */
  earlier: Claim | undefined
  private readonly id = newId()
  private wasCalled = false
  /** The task as the last call has accepted it. */
  private accepted: TaskSnapshot | undefined

  constructor(
    private readonly settings: EndpointSettings<C>, private readonly submission: Submission<C>,
    private readonly keyOptions: TaskClaimOptions | undefined,
  ) {}

  /** Runs the host's function. Ignores its error if the answer is that of an earlier request. */
  async perform(run: () => Promise<unknown>): Promise<void> {
    try {
      await run()
    } catch (error) {
      if (!this.earlier) throw error
    }
  }

  /** Accepts the task in an open transaction of the host. */
  readonly submit = async (transaction: Transaction): Promise<{ readonly taskId: string }> => {
    const { settings: { service, context }, submission, keyOptions, id, wasCalled } = this
    const { definition, input, request, requester, callbackUrl } = submission
    this.wasCalled = true
    this.earlier = undefined
    const opened = await service.intake.open(transaction)
    const found = keyOptions && await claimInTransaction(opened.store, keyOptions, id)
    // The own claim, if the host submits twice in one transaction.
    if (found && !(found.kind === 'task' && found.taskId === id)) {
      this.earlier = found
      throw new Error('An earlier request with this Idempotency-Key has committed; roll back')
    }
    const { task } = await service.accept(definition, input, {
      owner: requester.owner, counted: countedAs(request, requester.owner), isRequest: true,
      context: context(request),
      start: await startOf(service, submission), callbackUrl, id, isNewId: !wasCalled, claim: keyOptions?.key,
    }, opened)
    this.accepted = task
    return { taskId: id }
  }

  /**
   * Enqueues the task after the commit, and returns it. If the store fails now, the host's commit
   * still has succeeded. Then returns the task as it was accepted, and a sweep enqueues it.
   */
  async confirm(): Promise<TaskSnapshot> {
    if (!this.wasCalled) {
      throw new TypeError('submit: the option transaction must call submit(transaction)')
    }
    const { accepted } = this
    try {
      const found = await this.settings.service.intake.commits.confirm(this.id)
      if (found) return snapshotOf(found.record)
    } catch (error) {
      if (accepted && isStoreUnavailable(error)) return accepted
      throw error
    }
    throw new Error(
      'submit: the option transaction has resolved, but its transaction has not committed',
    )
  }
}
