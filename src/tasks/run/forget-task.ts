import { httpError } from '../../http/errors.js'
import { isTaskId } from '../record/ids.js'
import type { IsVisible } from '../record/owner.js'
import type { BelongingsSettings } from '../record/release-input.js'
import { isFinal } from '../record/state.js'
import type { Ledger } from '../record/ledger.js'
import type { TaskRecord } from '../record/record.js'
import { releaseBelongings } from './belongings.js'

/** Number of attempts at a record that others change at the same time. */
const MAX_TRIES = 5

/** Outcome of `forgetTask`; `undefined` if there is no such task. */
export type Forgotten = 'forgotten' | 'unfinished' | undefined

/** Throws if a task may not be changed as it is now: the precondition of a request. */
export type Precondition = (record: TaskRecord) => void

/**
 * Deletes a final task with all that it owns. Leaves an unfinished one as it is.
 *
 * @throws {HttpError} 409 `conflict`: others have changed the record several times meanwhile.
 */
export async function forgetTask(
  settings: BelongingsSettings & { readonly ledger: Ledger }, id: string, isVisible: IsVisible,
  check?: Precondition,
): Promise<Forgotten> {
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const found = isTaskId(id) ? await settings.ledger.load(id) : undefined
    if (!found || !isVisible(found.record)) return undefined
    if (!isFinal(found.record.state)) return 'unfinished'
    check?.(found.record)
    if (await settings.ledger.delete(found)) {
      await releaseBelongings(settings, found.record)
      return 'forgotten'
    }
  }
  throw httpError('conflict', { message: 'The task was changed meanwhile; try again.' })
}
