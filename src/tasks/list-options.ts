import { checkNames } from '../runtime/option-names.js'
import { LISTED_STATUSES, type ListedStatus, type TaskQuery } from '../engine/engine.js'
import type { AnyTaskDefinition } from './definition/define.js'
import type { Task } from './record/view.js'

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
  /**
   * Maximum number of tasks of the page, 1 to 200. A page ends earlier after 4 MiB. Default 50.
   */
  readonly limit?: number | undefined
  /** The member `next` of the page before, of a call with the same options. Default: first page. */
  readonly cursor?: string | undefined
}

/** A page of tasks. */
export interface TaskPage<
  T extends AnyTaskDefinition = AnyTaskDefinition, S extends ListedStatus = ListedStatus,
> {
  readonly items: Extract<Task<T>, { readonly status: S }>[]
  /** Cursor of the next page. Absent on the last one. */
  readonly next?: string
}

const KNOWN = {
  status: 0, task: 0, from: 0, to: 0, order: 0, limit: 0, cursor: 0,
} satisfies Record<keyof ListOptions, 0>

/** Filter of a list: everything that a query has except the position of its page. */
export type ListFilter = Omit<TaskQuery, 'after'>

/**
 * Returns the filter that options name.
 *
 * @throws {TypeError} An option is unknown or makes no sense.
 */
export function toFilter(
  where: string, options: ListOptions, of: ListFilter['of'],
  mustHave: (definition: AnyTaskDefinition) => void,
): ListFilter {
  checkNames(where, options, KNOWN)
  const { status, task, from, to, order = 'newest', limit = DEFAULT_LIMIT, cursor } = options
  const fault = (what: string) => new TypeError(`${where}: ${what}`)
  const statuses = status === undefined ? undefined : distinct([status].flat())
  const unknown = statuses?.find((each) => !LISTED_STATUSES.includes(each))
  if (unknown !== undefined || statuses?.length === 0) {
    throw fault(`status must be one or several of ${LISTED_STATUSES.join(', ')}`)
  }
  const definitions = task === undefined ? undefined : [task].flat()
  if (definitions?.length === 0) throw fault('task must be a definition, or a list of some')
  definitions?.forEach(mustHave)
  if (order !== 'newest' && order !== 'oldest') throw fault("order must be 'newest' or 'oldest'")
  if (!(Number.isInteger(limit) && limit >= 1 && limit <= MAX_LIMIT)) {
    throw fault(`limit must be a whole number from 1 to ${MAX_LIMIT}`)
  }
  if (cursor !== undefined && typeof cursor !== 'string') throw fault('cursor must be a text')
  return {
    of, order, limit, statuses, names: definitions && distinct(definitions.map(({ name }) => name)),
    from: timeOf(from, () => fault('from must be a valid Date')),
    to: timeOf(to, () => fault('to must be a valid Date')),
  }
}

function distinct<T>(items: readonly T[]): T[] {
  return [...new Set(items)]
}

function timeOf(date: Date | undefined, fault: () => TypeError): number | undefined {
  if (date === undefined) return undefined
  if (!(date instanceof Date) || Number.isNaN(date.getTime())) throw fault()
  return date.getTime()
}
