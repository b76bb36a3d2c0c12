import { createHash } from 'node:crypto'
import {
  LISTED_STATUSES, type ListedStatus, type ListPosition, type TaskEngine, type TaskQuery,
} from '../engine/engine.js'
import { httpError } from '../http/errors.js'
import { countedAsTenant } from '../http/requester.js'
import { isOwnerId } from '../runtime/names.js'
import { oneOf, readOptions, text, value, whole, type OptionTable } from '../runtime/options.js'
import type { AnyTaskDefinition } from './definition/define.js'
import { isTaskId, type Scope } from './record/details.js'
import type { Task } from './record/view.js'
import type { StoredTask } from '../engine/task.js'

/** Maximum and default number of tasks of a page. */
export const MAX_LIMIT = 200
export const DEFAULT_LIMIT = 50

/** Options of `tasks.list`. `T` are the kinds of the tasks, and `S` their statuses. */
export interface ListOptions<
  T extends AnyTaskDefinition = AnyTaskDefinition, S extends ListedStatus = ListedStatus,
> {
  /** Only tasks of this status, or of one of these. Default: all. */
  readonly status?: S | readonly S[] | undefined
  /** Only tasks of this definition, or of one of these. Default: all. */
  readonly task?: T | readonly T[] | undefined
  /** Only tasks created at this time or later. Default: no limit. */
  readonly from?: Date | undefined
  /** Only tasks created before this time. Default: no limit. */
  readonly to?: Date | undefined
  /** Order of creation. Default `newest`: the newest task first. */
  readonly order?: 'newest' | 'oldest' | undefined
  /** Maximum number of tasks of the page, 1 to 200. It ends earlier after 4 MiB. Default 50. */
  readonly limit?: number | undefined
  /** The property `next` of the page before, of a call with the same options. Default: first page. */
  readonly cursor?: string | undefined
}

/** Options of `tasks.list`, which sees the tasks of all owners. */
export type AllListOptions<
  T extends AnyTaskDefinition = AnyTaskDefinition, S extends ListedStatus = ListedStatus,
> = ListOptions<T, S> & { readonly tenant?: string | undefined }

/** A page of tasks. */
export interface TaskPage<
  T extends AnyTaskDefinition = AnyTaskDefinition, S extends ListedStatus = ListedStatus,
> {
  readonly items: Extract<Task<T>, { readonly status: S }>[]
  /** Cursor of the next page. Absent on the last one. */
  readonly next?: string
}

const isDate = (given: unknown): boolean => given instanceof Date && !Number.isNaN(given.getTime())

const OPTIONS = {
  status: value(`one or several of ${LISTED_STATUSES.join(', ')}`, (given) => {
    const statuses = [given].flat() as ListedStatus[]
    return statuses.length > 0 && statuses.every((each) => LISTED_STATUSES.includes(each))
  }),
  task: value('a definition, or a list of some', (given) => [given].flat().length > 0),
  from: value('a valid Date', isDate), to: value('a valid Date', isDate),
  order: oneOf(['newest', 'oldest'], { default: 'newest' }),
  limit: whole({ min: 1, max: MAX_LIMIT, default: DEFAULT_LIMIT }),
  cursor: text({ pattern: /^/, expects: 'a string' }),
} satisfies OptionTable<ListOptions>

const ALL_OPTIONS = {
  ...OPTIONS, tenant: value('the id of a tenant', isOwnerId),
} satisfies OptionTable<AllListOptions>

export type ListFilter = Omit<TaskQuery, 'after'>

export function toFilter(
  where: string, options: AllListOptions, scope: Scope,
  mustHave: (definition: AnyTaskDefinition) => void,
): ListFilter {
  // The tasks of one owner have no option `tenant`, which would widen them.
  const table = (scope === 'all' ? ALL_OPTIONS : OPTIONS) as typeof ALL_OPTIONS
  const { status, task, from, to, order, limit, tenant } = readOptions(where, options, table)
  const of = tenant === undefined ? scope : { caller: countedAsTenant(tenant) }
  const definitions = task && [task].flat()
  definitions?.forEach(mustHave)
  return {
    of, order, limit,
    statuses: status && distinct([status].flat()),
    names: definitions && distinct(definitions.map(({ name }) => name)),
    from: from?.getTime(), to: to?.getTime(),
  }
}

export function distinct<T>(items: readonly T[]): T[] {
  return [...new Set(items)]
}

const READ_TOGETHER = 64
/** Maximum length of all results of a page, in UTF-16 units: one result may have a megabyte. */
const MAX_PAGE_LENGTH = 4 * 1024 * 1024

/** Returns a page of tasks. Throws 400 `invalid_cursor`. */
export async function listTasks(
  engine: TaskEngine, filter: ListFilter, cursor: string | undefined,
): Promise<{ items: StoredTask[], next: string | undefined }> {
  let after: TaskQuery['after'] = cursor === undefined ? undefined : readCursor(cursor, filter)
  const items: StoredTask[] = []
  let length = 0
  for (;;) {
    // One more than is shown, which tells whether there is another page.
    const limit = Math.min(filter.limit + 1 - items.length, READ_TOGETHER)
    const tasks = await engine.list({ ...filter, limit, after })
    for (const task of tasks) {
      const last = items.at(-1)
      length += task.result?.length ?? 0
      if (last && (items.length === filter.limit || length > MAX_PAGE_LENGTH)) {
        return { items, next: toCursor(last, filter) }
      }
      items.push(task)
    }
    if (tasks.length < limit) return { items, next: undefined }
    after = tasks.at(-1)
  }
}

/** Characters of the digest in a cursor: 72 bits. */
const DIGEST_LENGTH = 12
const MAX_LENGTH = 256

/** Binds the position to owner, filter and order. */
function toCursor({ id, createdAt }: ListPosition, filter: ListFilter): string {
  const place = `${createdAt.toString(36)} ${id}`
  const text = digestOf(filter, place) + place
  return Buffer.from(text, 'latin1').toString('base64url')
}

function readCursor(cursor: string, filter: ListFilter): ListPosition {
  const text = cursor.length > MAX_LENGTH ? '' : Buffer.from(cursor, 'base64url').toString('latin1')
  const [time = '', id = ''] = text.slice(DIGEST_LENGTH).split(' ')
  const position = { createdAt: Number.parseInt(time, 36), id }
  // Written again, so that only a cursor of `toCursor` passes.
  const isOwn = Number.isSafeInteger(position.createdAt) && isTaskId(id)
    && toCursor(position, filter) === cursor
  if (!isOwn) throw httpError('invalid_cursor')
  return position
}

function digestOf({ of, statuses, names, from, to, order }: ListFilter, place: string): string {
  const owner = of === 'all' ? 'all' : 'caller' in of ? of : [of.owner]
  const parts = [owner, statuses?.toSorted(), names?.toSorted(), from, to, order, place]
  const hash = createHash('sha256').update(JSON.stringify(parts)).digest('base64url')
  return hash.slice(0, DIGEST_LENGTH)
}
