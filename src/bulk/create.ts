import type { Handler } from '../http/exchange.js'
import { checkNames } from '../runtime/option-names.js'
import type { Repository } from '../repositories/repository.js'
import type { ItemId } from './batch.js'
import { bulkTask, type BulkTask, type BulkTaskOptions } from './bulk-task.js'
import { bulkHandler } from './handler.js'
import { bulkOperation } from './operation.js'
import { isAtomic, KNOWN, withDefaults, type BulkBackground, type BulkOptions } from './options.js'
import type { Plan, Writer } from './plan.js'

/**
 * How many records are created. `Draft` is an item as its schema gives it, `Item` a record as the
 * repository does.
 */
export interface BulkCreateOptions<Item extends object, Draft extends object> extends BulkOptions<Draft> {
  /** Has `createMany` or `create`, and `transaction` where the batch is to be atomic. */
  readonly repository: Pick<Repository<Item, Draft, never, never>, 'create' | 'createMany' | 'transaction'>
  /** Default false. */
  readonly atomic?: boolean | 'if-possible'
  /**
   * What no two items of one batch may both have: the later ones are refused (`duplicate_item`),
   * before anything is written. `undefined` is like nothing else. Of a body that is streamed, only
   * the repository finds them. Default: items are not compared.
   */
  readonly key?: (item: Draft) => string | undefined
  /** Names a record in the report. Default: its member `id`. */
  readonly id?: (item: Item) => ItemId | undefined
}

/**
 * A handler for POST that creates many records (SPEC 4.3) from a JSON array, each item judged on
 * its own. Bodies may be coded (gzip, deflate, br, zstd).
 *
 * Answers `{ summary: { total, succeeded, failed }, items: [{ index, status, id?, error?: { code,
 * message, details? } }] }`: 201, 207 where some failed, 422 where none succeeded (500 where the
 * host is to blame); `?only=failed` leaves the others out, `Prefer: return=minimal` all. Atomic:
 * 201, or 422 (409 for a conflict), and nothing has changed.
 *
 * Bodies above `streamAboveBytes` go to the repository in batches while they arrive. When one ends
 * in a fault, what was written stays (unless the batch is atomic), and the error of 400 or 413 has
 * the report of it, and the `position` of the fault.
 *
 * Fails with `empty_batch`, `invalid_input` (not an array), `malformed_json`, `unsafe_key`,
 * `missing_body`, `malformed_coding`, `incomplete_body` (400), `body_too_large` (413),
 * `unsupported_media_type` and `unsupported_content_coding` (415).
 *
 * @throws {TypeError} when an option makes no sense, with what to do
 */
export function bulkCreate<Item extends object, Draft extends object, C = unknown>(
  options: BulkCreateOptions<Item, Draft> & { readonly background?: BulkBackground<C> },
): Handler<C> {
  const plan = createPlan('bulkCreate', options)
  const { background } = options
  return bulkHandler('bulkCreate', plan, background, bulkOperation(plan, background !== undefined))
}

/**
 * Defines the task that creates batches in the background, from the same options as the handler:
 * give it to `createTasks`, and to `bulkCreate` in `background`. Default time-out: one hour. A task
 * that runs again (`attempts` above 1, or a queue that repeats a task after a crash) creates its
 * items again: let the repository refuse those that are there.
 *
 * @throws {TypeError} when an option makes no sense
 */
export function bulkCreateTask<Item extends object, Draft extends object>(options: BulkCreateOptions<Item, Draft> & BulkTaskOptions): BulkTask {
  return bulkTask('bulkCreateTask', createPlan('bulkCreateTask', options), options)
}

const NAMES = { ...KNOWN, key: 0, id: 0 } satisfies Record<keyof (BulkCreateOptions<object, object> & BulkTaskOptions) | 'background', 0>

type Creating<Item extends object, Draft extends object> = BulkCreateOptions<Item, Draft>['repository']

function createPlan<Item extends object, Draft extends object>(name: string, options: BulkCreateOptions<Item, Draft>): Plan<Draft> {
  checkNames(name, options, NAMES)
  const { repository, schema, key, atomic = false, id = ownId } = options
  const writer = writerOf(name, repository)
  return {
    ...withDefaults(name, options),
    kind: 'create', method: 'POST', status: 201, member: undefined, schema, key, writer,
    transaction: isAtomic(name, atomic, repository)
      ? (work, call) => repository.transaction((inside) => work(writerOf(name, inside)), call)
      : undefined,
    idOf: (written) => id(written as Item),
  }
}

function writerOf<Item extends object, Draft extends object>(name: string, repository: Creating<Item, Draft>): Writer<Draft> {
  if (!repository?.createMany && !repository?.create) throw new TypeError(`${name}: the repository needs createMany or create`)
  return {
    ...repository.createMany && { many: (drafts, call) => repository.createMany?.(drafts, call) ?? [] },
    one: (draft, call) => repository.create?.(draft, call),
  }
}

function ownId(item: object): ItemId | undefined {
  const { id } = item as { readonly id?: unknown }
  return typeof id === 'string' || typeof id === 'number' ? id : undefined
}
