import type { Attempt, Job } from '../../queues/queue.js'
import type { ExecutorSettings } from './executor-settings.js'
import { noCallbacks, type CallbackDispatcher } from '../record/callbacks.js'

/**
 * Time for which a callback's job of another store is handed back, from the creation of its task:
 * 30 days in milliseconds.
 */
const MAX_FOREIGN_MS = 2_592_000_000

/**
 * Runs the job of a callback if this process can.
 *
 * @throws {HandBackError} The task is in another store, or this process sends no callbacks.
 */
export async function runCallback(
  job: Job, attempt: Attempt, { identity, handBacks, durable }: ExecutorSettings,
  dispatcher: CallbackDispatcher | undefined,
): Promise<void> {
  const ageMs = Date.now() - (job.input as { readonly createdAt: number }).createdAt
  const foreign = await identity.isForeign(job.store)
  // The application of that store will not come back.
  if (foreign && ageMs > MAX_FOREIGN_MS) return
  if (foreign) throw handBacks.of(job, 'The task of this callback is in another store', ageMs)
  if (dispatcher) return dispatcher.run(job, attempt)
  throw durable ? handBacks.of(job, 'This process makes no callbacks', ageMs) : noCallbacks()
}
