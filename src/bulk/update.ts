import type { Handler } from '../http/exchange.js'
import { checkNames } from '../runtime/option-names.js'
import type { Repository } from '../repositories/repository.js'
import type { ItemId } from './batch.js'
import { bulkTask, type BulkTask, type BulkTaskOptions } from './bulk-task.js'
import { bulkHandler } from './handler.js'
import { bulkOperation } from './operation.js'
import { isAtomic, KNOWN, withDefaults, type BulkBackground, type BulkOptions } from './options.js'
import type { Plan, Writer } from './plan.js'

/** How many records are changed. `T` is an item as its schema gives it. */
export interface BulkUpdateOptions<T extends object, Change, Id extends ItemId> extends BulkOptions<T> {
  /** Has `updateMany` or `update`, and `transaction` where the batch is to be atomic. */
  readonly repository: Pick<Repository<object, never, Change, Id>, 'update' | 'updateMany' | 'transaction'>
  /** The member of the body that holds the array. Default `updates` (SPEC 2.3). */
  readonly member?: string
  /** Which record an item is about. */
  readonly id: (item: T) => Id
  /** What of the record it changes. */
  readonly change: (item: T) => Change
  /** Default `'if-possible'`. */
  readonly atomic?: boolean | 'if-possible'
  /**
   * What no two items of one batch may both have: the later ones are refused (`duplicate_item`),
   * before anything is written. `undefined` is like nothing else. Items of a body that is streamed
   * are not compared; they take effect in their order. Default: the id.
   */
  readonly key?: (item: T) => string | undefined
}

/**
 * A handler for PATCH that changes many records (SPEC 4.4): a JSON object whose member `updates` is
 * an array, each item judged on its own. Atomic where the repository has a transaction. It answers
 * as `bulkCreate` does, with 200 where all went well; an item whose record is not there is a 404.
 *
 * @throws {TypeError} when an option makes no sense, with what to do
 */
export function bulkUpdate<T extends object, Change, Id extends ItemId, C = unknown>(
  options: BulkUpdateOptions<T, Change, Id> & { readonly background?: BulkBackground<C> },
): Handler<C> {
  const plan = updatePlan('bulkUpdate', options)
  const { background } = options
  return bulkHandler('bulkUpdate', plan, background, bulkOperation(plan, background !== undefined))
}

/**
 * Defines the task that does updates in the background, from the same options as the handler: give
 * it to `createTasks`, and to `bulkUpdate` in `background`. Default time-out: one hour.
 *
 * @throws {TypeError} when an option makes no sense
 */
export function bulkUpdateTask<T extends object, Change, Id extends ItemId>(options: BulkUpdateOptions<T, Change, Id> & BulkTaskOptions): BulkTask {
  return bulkTask('bulkUpdateTask', updatePlan('bulkUpdateTask', options), options)
}

const NAMES = {
  ...KNOWN, member: 0, id: 0, change: 0, key: 0,
} satisfies Record<keyof (BulkUpdateOptions<object, never, ItemId> & BulkTaskOptions) | 'background', 0>

function updatePlan<T extends object, Change, Id extends ItemId>(name: string, options: BulkUpdateOptions<T, Change, Id>): Plan<T> {
  checkNames(name, options, NAMES)
  const { repository, schema, member = 'updates', id, change, atomic = 'if-possible' } = options
  if (typeof id !== 'function' || typeof change !== 'function') throw new TypeError(`${name}: id and change must be functions of an item`)
  if (typeof member !== 'string' || member === '') throw new TypeError(`${name}: member must be the name of a member`)
  const { key = (item) => String(id(item)) } = options
  const writerOf = (inside: BulkUpdateOptions<T, Change, Id>['repository']): Writer<T> => {
    if (!inside?.updateMany && !inside?.update) throw new TypeError(`${name}: the repository needs updateMany or update`)
    return {
      ...inside.updateMany && {
        many: (items, call) => inside.updateMany?.(items.map((item) => ({ id: id(item), change: change(item) })), call) ?? [],
      },
      one: (item, call) => inside.update?.(id(item), change(item), call),
    }
  }
  return {
    ...withDefaults(name, options),
    kind: 'update', method: 'PATCH', status: 200, member, schema, key,
    writer: writerOf(repository),
    transaction: isAtomic(name, atomic, repository)
      ? (work, call) => repository.transaction((inside) => work(writerOf(inside)), call)
      : undefined,
    idOf: (_, item) => id(item),
  }
}
