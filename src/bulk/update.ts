import type { Handler } from '../http/exchange.js'
import type { RecordObject, Repository } from '../repositories/repository.js'
import { func, type OptionTable } from '../runtime/options.js'
import { bulkEndpoint, type BackgroundBulk } from './handler.js'
import {
  BULK, isAtomic, withDefaults, type BulkBackgroundOptions, type BulkOptions, type BulkSettings,
  type ItemId, type Writer,
} from './options.js'

/** Options of `bulkUpdate`. `T` is an item as its schema returns it. */
export interface BulkUpdateOptions<T extends object, Change, Id extends ItemId>
  extends BulkOptions<T> {
  /** Has `updateMany` or `update`, and `transaction` for atomic batches. */
  readonly repository: Pick<Repository<RecordObject, never, Change, Id>,
    'update' | 'updateMany' | 'transaction'>
  /** JSON pointer (RFC 6901) to the array in the body; see `bulkCreate`. Default: `/updates`. */
  readonly items?: string
  /** Returns the id of the record that an item changes. */
  readonly id: (item: T) => Id
  /** Returns the change. */
  readonly change: (item: T) => Change
  /** @default 'if-possible' */
  readonly atomic?: boolean | 'if-possible'
  /**
   * Returns a key that no two items of one batch may share, as in `bulkCreate`. Default: the id.
   *
   * Items of a body above `streamAboveBytes` in a task are written in their order.
   */
  readonly key?: (item: T) => string | undefined
}

const UPDATE = {
  ...BULK, id: func({ required: true }), change: func({ required: true }),
} satisfies OptionTable<BulkUpdateOptions<object, never, ItemId>>

/**
 * Creates a handler for PATCH that changes many records. The body is a JSON object whose property
 * `updates` is an array; `items` names another place. Batches are atomic if the repository has a
 * transaction. Unless `atomic` is `true`, clients choose partial success with `Prefer:
 * handling=lenient` (RFC 7240 section 4.4). The response is that of `bulkCreate`, with 200 if all items succeeded. An item whose
 * record does not exist is a 404. The report of an atomic batch names all such items, even if other
 * items are not valid.
 *
 * Without `background` the result is the handler. With `background` it has two parts: `task` for
 * `createTasks`, and `handler(endpoints)` for the router.
 * @example
 * import { router } from 'longhaul'
 * import { bulkUpdate } from 'longhaul/bulk'
 *
 * interface Rename { readonly id: number, readonly name: string }
 * const names = new Map([[1, 'Ann']])
 * const renameUsers = bulkUpdate({
 *   repository: { update: (id: number, name: string) => names.set(id, name) && { id, name } },
 *   id: ({ id }: Rename) => id,
 *   change: ({ name }: Rename) => name,
 * })
 * export const handler = router({ 'PATCH /users/bulk': renameUsers })
 * @throws {TypeError} An option is unknown or not valid.
 */
export function bulkUpdate<T extends object, Change, Id extends ItemId, C = unknown>(
  options: BulkUpdateOptions<T, Change, Id> & { readonly background?: undefined },
): Handler<C>
export function bulkUpdate<T extends object, Change, Id extends ItemId>(
  options: BulkUpdateOptions<T, Change, Id> & { readonly background: BulkBackgroundOptions },
): BackgroundBulk
export function bulkUpdate<T extends object, Change, Id extends ItemId>(
  options: BulkUpdateOptions<T, Change, Id>,
): BackgroundBulk | Handler {
  return bulkEndpoint('bulkUpdate', updateSettings(options), options.background)
}

function updateSettings<T extends object, Change, Id extends ItemId>(
  options: BulkUpdateOptions<T, Change, Id>,
): BulkSettings<T> {
  const shared = withDefaults('bulkUpdate', options, UPDATE, '/updates')
  const { repository, schema, id, change, atomic = 'if-possible' } = options
  const { key = (item) => String(id(item)) } = options
  const writerOf = (inside: typeof repository): Writer<T> => {
    if (!inside?.updateMany && !inside?.update) {
      throw new TypeError('bulkUpdate: the repository needs updateMany or update')
    }
    const updateOf = (item: T) => ({ id: id(item), change: change(item) })
    return {
      ...inside.updateMany && {
        many: (items, call) => inside.updateMany?.(items.map(updateOf), call) ?? [],
      },
      one: (item, call) => inside.update?.(id(item), change(item), call),
    }
  }
  return {
    ...shared,
    kind: 'update', method: 'PATCH', status: 200, schema, key, atomic,
    writer: writerOf(repository),
    transaction: isAtomic('bulkUpdate', atomic, repository)
      ? (work, call) => repository.transaction((inside) => work(writerOf(inside)), call)
      : undefined,
    idOf: (_, item) => id(item),
  }
}
