import type { ListedStatus } from '../engine/engine.js'
import { parseTimestamp } from '../http/headers/dates.js'
import { isHttpError } from '../http/errors.js'
import { readFailure } from '../http/failure.js'
import { isOwnerId, MAX_NAME } from '../runtime/names.js'
import { readOptions, type OptionTable } from '../runtime/options.js'
import { nextTurn } from '../runtime/timers.js'
import { jsonSchema } from '../schema/json-schema.js'
import { isStoreUnavailable } from '../stores/store.js'
import {
  DEFAULT_POOL, defineTask, POOL_NAME, TASK_NAME, type ListedTask, type OtherTasks,
  type TaskDefinition,
} from '../tasks/definition/define.js'
import type { TaskContext } from '../tasks/definition/run-context.js'
import { narrowed } from '../tasks/http/lists.js'
import { detailsOf } from '../tasks/record/details.js'

/** Properties of all filters. A task matches if it matches all of them. */
interface TaskFilter {
  /** Only tasks of the definitions with these names. Default: all. */
  readonly task?: readonly string[]
  /**
   * Only tasks of this owner; without `tenant`, of an owner in no tenant. Default: the tasks of all owners, and
   * those without an owner.
   */
  readonly owner?: string
  /** Only tasks of this tenant. Default: the tasks of all tenants, and those without a tenant. */
  readonly tenant?: string
  /** Only tasks created at this time or later, as RFC 3339. Default: no limit. */
  readonly from?: string
  /** Only tasks created before this time, as RFC 3339. Default and latest: the start of the first run. */
  readonly to?: string
}

/** The tasks that one run retries: those that match all properties. */
export interface RetryFilter extends TaskFilter {
  /** Only tasks of these statuses. Default: `['failed']`. */
  readonly status?: readonly ('failed' | 'cancelled')[]
}

/** The tasks that one run cancels: those that match all properties. */
export interface CancelFilter extends TaskFilter {
  /** Only tasks of these statuses. Default: all four. */
  readonly status?: readonly ('scheduled' | 'queued' | 'processing' | 'input_required')[]
}

/** The tasks that one run deletes: those that match all properties. */
export interface ForgetFilter extends TaskFilter {
  /** Only tasks of these statuses. Required, so that a forgotten filter does not delete all tasks. */
  readonly status: readonly ('completed' | 'failed' | 'cancelled')[]
}

/** Properties of all reports. */
interface TaskReport {
  /** Number of matching tasks that could not be changed. */
  readonly failed: number
  /** The first 100 of these tasks. */
  readonly failures: readonly RetryFailure[]
}

/** The result of `retryTasks`. */
export interface RetryReport extends TaskReport {
  /** Number of tasks that were retried. */
  readonly retried: number
}

/** The result of `cancelTasks`. */
export interface CancelReport extends TaskReport {
  /** Number of tasks that were cancelled. */
  readonly cancelled: number
}

/** The result of `forgetTasks`. */
export interface ForgetReport extends TaskReport {
  /** Number of tasks that were deleted. */
  readonly forgotten: number
}

/** A task that could not be retried, cancelled or deleted. */
export interface RetryFailure {
  readonly taskId: string
  /**
   * `task_not_final`, `task_already_final`, `task_already_completed` or `conflict` if something else has
   * changed the task meanwhile, `task_not_found` if it was deleted, `gone` if its input is no longer stored,
   * `too_many_tasks` if its owner has `maxPerOwner` unfinished tasks, `store_unavailable` if its
   * external resource or its files cannot be renewed now.
   */
  readonly code: string
}

/** Options of `retryTasks`, `cancelTasks` and `forgetTasks`. */
export interface RetryTasksOptions {
  /** Name of the definition, for lists and logs. Default: `retry-tasks`, `cancel-tasks` or `forget-tasks`. */
  readonly name?: string
  /** Pool that runs it, one of `pools` of `createTasks`. Default `default`. */
  readonly pool?: string
}

/** A definition of work on the tasks of a filter. */
type ManyTasks<F, R> = TaskDefinition<F, R, unknown, F, string, Position>

/** A definition that retries other tasks. Made by `retryTasks`. */
export type RetryTasks = ManyTasks<RetryFilter, RetryReport>

/** A definition that cancels other tasks. Made by `cancelTasks`. */
export type CancelTasks = ManyTasks<CancelFilter, CancelReport>

/** A definition that deletes other tasks. Made by `forgetTasks`. */
export type ForgetTasks = ManyTasks<ForgetFilter, ForgetReport>

/** Position in the list of tasks, and the report until there. */
interface Position extends TaskReport {
  readonly changed: number
  /** Time before which the tasks were created, so that the list has an end, in milliseconds since 1970. */
  readonly to: number
  /** The tasks of the page that were not changed yet. */
  readonly tasks: readonly ListedTask[]
  /** The last task of the page. Absent before the first page. */
  readonly after?: { readonly createdAt: number, readonly id: string }
  /** `true` if no tasks follow. */
  readonly isLast: boolean
}

/** Number of tasks that are listed together, and stored in the checkpoint before any is changed. */
const PAGE = 64
/** Number of tasks that are changed at the same time. */
const CONCURRENCY = 8
const MAX_FAILURES = 100
const DAY_MS = 86_400_000

const strings = { type: 'array', minItems: 1, items: { type: 'string' } }
const id = { type: 'string', minLength: 1, maxLength: MAX_NAME, format: 'id' }
const time = { type: 'string', format: 'date-time' }

const OPTIONS = {
  name: TASK_NAME, pool: { ...POOL_NAME, default: DEFAULT_POOL },
} satisfies OptionTable<RetryTasksOptions>

/**
 * Defines a task that retries all failed or cancelled tasks that match a filter, the oldest first.
 * `retryMany` of `operatorEndpoints` submits it; your own code submits it as any other task, without
 * an owner. For an owner there is no such task: 422 `unknown_task`.
 *
 * - Each task is retried once by one task of this kind, even if the process of the run dies.
 * - While there is no space for more unfinished tasks (`queue_full`), the run ends and begins again
 *   after up to 30 seconds. It also waits while the engine is unavailable.
 * - Tasks of this kind are not retried by each other.
 *
 * @example
 * import { retryTasks } from 'longhaul/operators'
 *
 * const retries = retryTasks()
 * const tasks = createTasks({ ...memory(), definitions: [report, retries] })
 * const { wait } = await tasks.submit(retries, { task: ['report'], from: '2026-03-01T00:00:00Z' })
 * const end = await wait({ timeoutMs: 60_000 })
 * if (end?.status === 'completed') console.log(end.result.retried, end.result.failures)
 *
 * @throws {TypeError} An option is unknown or not valid.
 */
export function retryTasks(options: RetryTasksOptions = {}): RetryTasks {
  return defineMany('retry', options)
}

/**
 * Defines a task that cancels all unfinished tasks that match a filter, the oldest first. `cancelMany` of
 * `operatorEndpoints` submits it. It is like `retryTasks` in all other respects.
 *
 * @example
 * import { cancelTasks } from 'longhaul/operators'
 *
 * const cancels = cancelTasks()
 * const tasks = createTasks({ ...memory(), definitions: [report, cancels] })
 * await tasks.submit(cancels, { task: ['report'], owner: 'ann' })
 *
 * @throws {TypeError} An option is unknown or not valid.
 */
export function cancelTasks(options: RetryTasksOptions = {}): CancelTasks {
  return defineMany('cancel', options)
}

/**
 * Defines a task that deletes all final tasks that match a filter, with what they own, the oldest first.
 * `forgetMany` of `operatorEndpoints` submits it. It is like `retryTasks` in all other respects.
 *
 * @example
 * import { forgetTasks } from 'longhaul/operators'
 *
 * const forgets = forgetTasks()
 * const tasks = createTasks({ ...memory(), definitions: [report, forgets] })
 * await tasks.submit(forgets, { status: ['failed'], to: '2026-03-01T00:00:00Z' })
 *
 * @throws {TypeError} An option is unknown or not valid.
 */
export function forgetTasks(options: RetryTasksOptions = {}): ForgetTasks {
  return defineMany('forget', options)
}

/** Change of each task of a filter. */
export type Action = Parameters<OtherTasks['change']>[0]

/** Statuses of the tasks that each action changes. */
export const ACTION_STATUSES: Readonly<Record<Action, readonly ListedStatus[]>> = {
  retry: ['failed', 'cancelled'], cancel: ['scheduled', 'queued', 'processing', 'input_required'],
  forget: ['completed', 'failed', 'cancelled'],
}

/** Name of the number of changed tasks in the report. */
const COUNTED = { retry: 'retried', cancel: 'cancelled', forget: 'forgotten' } as const

type AnyFilter = TaskFilter & { readonly status?: readonly ListedStatus[] }
type ManyContext = TaskContext<unknown, Position>

function defineMany<F extends AnyFilter, R>(action: Action, options: RetryTasksOptions): ManyTasks<F, R> {
  const { name = `${action}-tasks`, pool } = readOptions(`${action}Tasks`, options, OPTIONS)
  const definition = defineTask({
    name, pool,
    // About eight hours. Only what passes is tried again: a full queue, and an engine that is away.
    attempts: 1000, backoff: { type: 'exponential', delayMs: 1000, maxDelayMs: 30_000, jitter: 0.5 },
    timeoutMs: DAY_MS,
    input: jsonSchema<AnyFilter>({
      type: 'object', additionalProperties: false, ...action === 'forget' && { required: ['status'] },
      properties: {
        status: { ...strings, items: { enum: ACTION_STATUSES[action] }, uniqueItems: true },
        task: { ...strings, uniqueItems: true },
        owner: id, tenant: id,
        from: time, to: time,
      },
    }, {
      formats: {
        'date-time': (text) => parseTimestamp(text) !== undefined, id: isOwnerId,
      },
    }),
    checkpoint: jsonSchema<Position>({ type: 'object', required: ['to', 'tasks', 'changed'] }),
    run: (): object => {
      throw new TypeError(`${name} changes the tasks of createTasks, so it runs only as one of them`)
    },
  })
  const runForOperators = async (
    tasks: OtherTasks, filter: AnyFilter, context: ManyContext,
  ): Promise<object> => {
    const { changed, failed, failures } = await changeAll(tasks, { action, name }, filter, context)
    return { [COUNTED[action]]: changed, failed, failures }
  }
  return { ...definition, runForOperators } as unknown as ManyTasks<F, R>
}

async function changeAll(
  tasks: OtherTasks, { action, name: own }: { readonly action: Action, readonly name: string },
  filter: AnyFilter, { taskId, signal, progress, checkpoint }: ManyContext,
): Promise<Position> {
  const { task, from, to } = filter
  const { status = action === 'retry' ? ['failed' as const] : ACTION_STATUSES[action] } = filter
  const query = {
    of: narrowed('all', { owner: filter.owner, tenant: filter.tenant }),
    statuses: status, names: task, order: 'oldest' as const, limit: PAGE,
    from: from === undefined ? undefined : parseTimestamp(from),
  }
  let position: Position = checkpoint.value ?? {
    // With the tasks of this very millisecond.
    to: Math.min(to === undefined ? Infinity : parseTimestamp(to) ?? Infinity, await tasks.engine.now() + 1),
    tasks: [], isLast: false, changed: 0, failed: 0, failures: [],
  }
  // A run after a crash finds by this key which tasks of the page were retried before.
  const change = (listed: ListedTask) => tasks.change(action, listed, `${action}-tasks ${taskId}`)
  const report = (error: unknown, id: string) => { tasks.report(error, { id, name: own, attempt: 0 }) }
  try {
    for (;;) {
      const { error, ...next } = await changePage(position, change, signal, report)
      position = next
      const { to, after, isLast, changed, failed } = position
      progress(changed + failed, undefined, undefined, 'tasks')
      if (error !== undefined) throw error as Error
      if (isLast) return position
      // An engine in memory would otherwise let nothing else run until the end.
      await nextTurn()
      const page = await tasks.engine.list({ ...query, to, after, omit: ['result'] })
      const last = page.at(-1)
      position = {
        ...position, isLast: page.length < PAGE,
        tasks: page.filter(({ name }) => name !== own).map((each) => (
          { id: each.id, birth: each.birth, round: detailsOf(each).round }
        )),
        ...last && { after: { createdAt: last.createdAt, id: last.id } },
      }
      if (last) await checkpoint.save(position)
    }
  } catch (error) {
    // The next run does not have to find the tasks again that were changed: they may be deleted by then.
    await checkpoint.save(position).catch(() => undefined)
    throw error
  }
}

/** Changes the tasks of a page. Stops at an `error` that concerns all tasks; `tasks` are then the rest. */
async function changePage(
  { tasks, changed, failed, failures, ...position }: Position,
  change: (task: ListedTask) => Promise<string | undefined>, signal: AbortSignal,
  report: (error: unknown, taskId: string) => void,
): Promise<Position & { readonly error?: unknown }> {
  const failing = [...failures]
  let rest = tasks
  let error: unknown
  while (rest.length > 0 && error === undefined) {
    if (signal.aborted) {
      error = signal.reason
      break
    }
    const together = rest.slice(0, CONCURRENCY)
    const outcomes = await Promise.allSettled(together.map(change))
    const again: ListedTask[] = []
    for (const [n, outcome] of outcomes.entries()) {
      const task = together[n] as ListedTask
      if (outcome.status === 'rejected' && concernsAll(outcome.reason)) {
        error = outcome.reason
        again.push(task)
        continue
      }
      const code = outcome.status === 'rejected'
        ? codeOf(outcome.reason, (cause) => { report(cause, task.id) })
        : outcome.value
      if (code === undefined) changed++
      else if (++failed <= MAX_FAILURES) failing.push({ taskId: task.id, code })
    }
    rest = [...again, ...rest.slice(CONCURRENCY)]
  }
  return { ...position, tasks: rest, changed, failed, failures: failing, error }
}

/** Returns true if no task can be changed now, so that the run has to continue later. */
function concernsAll(error: unknown): boolean {
  return isStoreUnavailable(error)
    || isHttpError(error) && (error.code === 'queue_full' || error.code === 'shutting_down')
}

/** Returns the code of a failure of one task. */
function codeOf(error: unknown, report: (error: unknown) => void): string {
  const { code, expected } = readFailure(error)
  if (!expected) report(error)
  return code
}
