import type { Handler } from '../http/exchange.js'
import type { RecordObject, Repository } from '../repositories/repository.js'
import { func, type OptionTable } from '../runtime/options.js'
import { bulkEndpoint, type BackgroundBulk } from './handler.js'
import {
  BULK, isAtomic, withDefaults, type BulkBackgroundOptions, type BulkOptions, type BulkSettings,
  type ItemId, type Writer,
} from './options.js'

/**
 * Options of `bulkCreate`. `Draft` is an item as its schema returns it, `Item` a record as the
 * repository returns it.
 */
export interface BulkCreateOptions<Item extends RecordObject, Draft extends object>
  extends BulkOptions<Draft> {
  /** Has `createMany` or `create`, and `transaction` for atomic batches. */
  readonly repository: Pick<Repository<Item, Draft, never, never>,
    'create' | 'createMany' | 'transaction'>
  /** @default '' */
  readonly items?: string
  /** @default false */
  readonly atomic?: boolean | 'if-possible'
  /**
   * Returns a key that no two items of one batch may share. Default: no comparison.
   *
   * Later items with the same key are rejected as `duplicate_item`, before anything is written.
   *
   * Items with the key `undefined` are not compared, nor are items of a body above
   * `streamAboveBytes` in a task.
   */
  readonly key?: (item: Draft) => string | undefined
  /** Returns the id of a record, for the report. Default: its property `id`. */
  readonly id?: (item: Item) => ItemId | undefined
}

const CREATE = { ...BULK, id: func() } satisfies OptionTable<BulkCreateOptions<object, object>>

/**
 * Creates a handler for POST that creates many records from a JSON array, which is the body or a
 * part of it (`items`). Each item is validated separately. Bodies may be coded with gzip, deflate,
 * br, and zstd where Node supports it.
 *
 * Without `background` the result is the handler. With `background` it has two parts: `task` for
 * `createTasks`, and `handler(endpoints)` for the router. A client then chooses with `Prefer:
 * respond-async`, and requests may have an Idempotency-Key. Without `background` a request with a
 * key gets 400 `idempotency_not_supported`, unless the policy `idempotent()` runs first.
 *
 * The response is `{ summary: { total, succeeded, failed }, items: [{ index, status, id?, error?: {
 * code, message, details? } }] }`. The pointers in `details` begin at the root of the body, such as
 * `/17/email`. The status is 201 if all items succeeded, 207 if some failed, and 422 if none
 * succeeded (500 if the server is to blame). `?only=failed` lists failed items only; `Prefer:
 * return=minimal` lists none. The response to an atomic batch is 201, or 422 (409 for a conflict)
 * with nothing changed. Its report names all items that must be corrected.
 *
 * Nothing is written before the whole body was received and checked: a 400 or 413 has written
 * nothing. A body above `maxDirectBytes` becomes a task if there is `background`; otherwise it gets
 * a 413.
 *
 * A task that runs again continues after the items that it has committed. After a crash up to
 * `batchSize` items may be created twice. Let the repository reject those that exist, or use
 * `resume`.
 *
 * Fails with `empty_batch`, `invalid_input` (not an array), `malformed_json`, `unsafe_key`,
 * `missing_body`, `malformed_coding`, `incomplete_body` (400), `body_too_large` (413),
 * `unsupported_media_type` and `unsupported_content_coding` (415), and if bodies take too much
 * memory, with `too_many_requests` (429, those of the same caller) or `overloaded` (503).
 * @example
 * import { createTasks, router, taskEndpoints } from 'longhaul'
 * import { bulkCreate } from 'longhaul/bulk'
 * import { memory } from 'longhaul/memory'
 *
 * const users: { id: number, name: string }[] = []
 * const create = ({ name }: { name: string }) => {
 *   const user = { id: users.length + 1, name }
 *   users.push(user)
 *   return user
 * }
 * const { engine, store, blobs } = memory()
 * const createUsers = bulkCreate({
 *   repository: { create }, background: { name: 'create-users', blobs },
 * })
 * const tasks = createTasks({ engine, store, definitions: [createUsers.task] })
 * const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
 * export const handler = router({
 *   'POST /users/bulk': createUsers.handler(endpoints), '/tasks/{id}': endpoints.status,
 * })
 * @throws {TypeError} An option is unknown or not valid.
 */
export function bulkCreate<Item extends RecordObject, Draft extends object, C = unknown>(
  options: BulkCreateOptions<Item, Draft> & { readonly background?: undefined },
): Handler<C>
export function bulkCreate<Item extends RecordObject, Draft extends object>(
  options: BulkCreateOptions<Item, Draft> & { readonly background: BulkBackgroundOptions },
): BackgroundBulk
export function bulkCreate<Item extends RecordObject, Draft extends object>(
  options: BulkCreateOptions<Item, Draft>,
): BackgroundBulk | Handler {
  return bulkEndpoint('bulkCreate', createSettings(options), options.background)
}

function createSettings<Item extends RecordObject, Draft extends object>(
  options: BulkCreateOptions<Item, Draft>,
): BulkSettings<Draft> {
  const shared = withDefaults('bulkCreate', options, CREATE, '')
  const { repository, schema, key, atomic = false, id = idMember } = options
  const writer = writerOf(repository)
  return {
    ...shared,
    kind: 'create', method: 'POST', status: 201, schema, key, writer, atomic,
    transaction: isAtomic('bulkCreate', atomic, repository)
      ? (work, call) => repository.transaction((inside) => work(writerOf(inside)), call)
      : undefined,
    idOf: (written) => id(written as Item),
  }
}

function writerOf<Item extends RecordObject, Draft extends object>(
  repository: BulkCreateOptions<Item, Draft>['repository'],
): Writer<Draft> {
  if (!repository?.createMany && !repository?.create) {
    throw new TypeError('bulkCreate: the repository needs createMany or create')
  }
  return {
    ...repository.createMany && {
      many: (drafts, call) => repository.createMany?.(drafts, call) ?? [],
    },
    one: (draft, call) => repository.create?.(draft, call),
  }
}

function idMember(item: object): ItemId | undefined {
  const { id } = item as { readonly id?: unknown }
  return typeof id === 'string' || typeof id === 'number' ? id : undefined
}
