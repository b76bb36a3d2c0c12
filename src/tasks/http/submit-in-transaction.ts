import { checkTransaction, type Transaction } from '../../engine/engine.js'
import { isStoreUnavailable } from '../../stores/store.js'
import { newId } from '../../runtime/random-id.js'
import type { AcceptedTask as Accepted } from '../core/accept-task.js'
import type { TaskService } from '../core/task-service.js'
import { newBirth } from '../record/ids.js'
import {
  findTask, idempotencyOf, startOf, toAccepted, type AcceptedSubmission,
} from './accept-submission.js'
import { countedAs } from '../../http/requester.js'
import type { EndpointSettings } from './endpoint-settings.js'
import { discardInput, type Submission } from './submission.js'
import type { SubmitTransaction } from './submit-endpoint-options.js'

/**
 * Accepts a submission in a transaction that the application opens and ends. The task, its
 * Idempotency-Key and the rows of the application commit together.
 *
 * If an earlier request with the key has committed, `run` is not called. If that request commits
 * while `run` is active, `submit` rejects, so that the application rolls back, and the response is
 * the same.
 *
 * @param run - the option `transaction` of the endpoint
 * @throws {HttpError} What `acceptTask` throws; 422 `idempotency_key_reused`
 * @throws What `run` rejects with
 */
export async function submitInTransaction<C>(
  settings: EndpointSettings<C>, submission: Submission<C>, run: SubmitTransaction<C>,
): Promise<AcceptedSubmission> {
  const { service } = settings
  const { request, requester, definition, input, callbackUrl, direct } = submission
  const { owner } = requester
  const idempotency = idempotencyOf(submission)
  const committed = idempotency
    && await findTask(service, idempotency.key, owner, idempotency.fingerprint)
  if (committed) {
    await discardInput(submission)
    return committed
  }
  const id = newId()
  const birth = newBirth(id)
  let accepted: Accepted | undefined
  const submit = async (transaction: Transaction): Promise<{ readonly taskId: string }> => {
    checkTransaction('submit', transaction)
    accepted = await service.accept(definition, input, {
      id, birth, owner, caller: countedAs(request, requester.owner), isRequest: true,
      context: settings.context(request), start: await startOf(service, submission), callbackUrl,
      idempotency, transaction,
    })
    if (accepted.created) return { taskId: id }
    throw new Error('An earlier request with this Idempotency-Key has committed; roll back')
  }
  try {
    await run(request, input, submit)
  } catch (error) {
    if (accepted?.created !== false) throw error
    await discardInput(submission)
    return toAccepted(accepted.task, { direct, replayed: true })
  }
  if (accepted === undefined) {
    throw new TypeError('submit: the option transaction must call submit(transaction)')
  }
  if (await hasCommitted(service, id)) {
    return toAccepted(accepted.task, { direct, replayed: false })
  }
  throw new Error(
    'submit: the option transaction has resolved, but its transaction has not committed',
  )
}

/** Returns whether a task is there. If the engine fails now, believes the application. */
async function hasCommitted(service: TaskService, id: string): Promise<boolean> {
  try {
    return await service.read(id) !== undefined
  } catch (error) {
    if (isStoreUnavailable(error)) return true
    throw error
  }
}
