import { compose, describe, type Handler, type Policy } from '../../../http/exchange.js'
import { json } from '../../../http/respond.js'
import { checkNames } from '../../../runtime/option-names.js'
import type { TaskEngine } from '../../../engine/engine.js'
import { LISTED_STATUSES, type ListedStatus } from '../../../engine/engine.js'
import type { ListFilter } from '../../list-options.js'
import type { TaskSnapshot } from '../../record/snapshot.js'
import { bodyOf, type TaskBody } from '../../record/view.js'
import type { TaskService } from '../../core/task-service.js'
import type { EndpointSettings } from '../endpoint-settings.js'
import { policiesOf } from './operator-list.js'
import { overviewOperations } from './overview-operations.js'
import { mustTakeJson } from './page.js'

/** Options of `operatorOverview`. */
export interface OperatorOverviewOptions<C = unknown> {
  /**
   * Policies that refuse everybody but operators, such as `authorize({ allow, reason })`. They run
   * first. Required, because the overview is about the tasks of all owners.
   */
  readonly authorize: Policy<C> | readonly Policy<C>[]
}

const KNOWN = { authorize: 0 } satisfies Record<keyof OperatorOverviewOptions, 0>
const WHERE = 'operatorOverview'

/** Maximum count of each status. Counting more would cost more with each task. */
export const MAX_COUNT = 1000
/** Number of final tasks whose callbacks are looked at: four pages, so that few are in memory. */
const CALLBACK_PAGES = 4
const CALLBACK_PAGE = 50

/** Number of tasks of one status. */
interface StatusCount {
  /** At most 1000. */
  readonly count: number
  /** `true` if there are more. */
  readonly more: boolean
}

/** A task as the overview names it. */
interface OverviewTask extends Pick<TaskBody, 'taskId' | 'task' | 'createdAt' | 'callback'> {
  readonly owner?: string
}

/** A waiting task, with the pool in which it waits. */
interface WaitingTask extends OverviewTask {
  readonly pool: string
}

/** Creates the handler of the operators' overview. See `TaskEndpoints.operatorOverview`. */
export function createOverview<C>(
  { service }: EndpointSettings<C>, options: OperatorOverviewOptions<C>,
): Handler<C> {
  checkNames(WHERE, options, KNOWN)
  const handler: Handler<C> = async (request) => {
    if (request.method !== 'GET' && request.method !== 'HEAD') return undefined
    mustTakeJson(request)
    const [counts, oldestQueued, callbacks] = await Promise.all([
      countAll(service.core.engine), findOldest(service), failingCallbacks(service),
    ])
    return json(200, {
      counts,
      ...oldestQueued && { oldestQueued },
      callbacks,
    }, { 'cache-control': 'no-store', 'vary': 'Accept, Authorization' })
  }
  const policies = policiesOf(WHERE, options.authorize)
  return compose(...policies, describe(handler, overviewOperations()))
}

async function countAll(engine: TaskEngine): Promise<Record<ListedStatus, StatusCount>> {
  const counts = await Promise.all(LISTED_STATUSES.map(async (status) => {
    const limit = MAX_COUNT + 1
    const { length } = await engine.list({ of: 'all', statuses: [status], order: 'oldest', limit })
    return [status, { count: Math.min(length, MAX_COUNT), more: length > MAX_COUNT }] as const
  }))
  return Object.fromEntries(counts) as Record<ListedStatus, StatusCount>
}

/** Returns the task that has waited longest. Its pool may be one that no process works. */
async function findOldest(service: TaskService): Promise<WaitingTask | undefined> {
  const filter: ListFilter = { of: 'all', statuses: ['queued'], order: 'oldest', limit: 1 }
  const { items: [oldest] } = await service.list(filter, undefined)
  if (oldest === undefined) return undefined
  const pool = await service.poolOfTask(oldest.id)
  // Otherwise it was deleted meanwhile.
  return pool === undefined ? undefined : { ...toOverviewTask(oldest), pool }
}

/** Returns the tasks whose callbacks have failed, among the newest final tasks. */
async function failingCallbacks(
  service: TaskService,
): Promise<{ readonly examined: number, readonly failed: readonly OverviewTask[] }> {
  const filter: ListFilter = {
    of: 'all', statuses: ['completed', 'failed', 'cancelled'], order: 'newest', limit: CALLBACK_PAGE,
  }
  const failed: OverviewTask[] = []
  let examined = 0
  let cursor: string | undefined
  for (let pages = 0; pages < CALLBACK_PAGES; pages++) {
    const { items, next } = await service.list(filter, cursor)
    examined += items.length
    for (const task of items) {
      if (bodyOf(task).callback?.state === 'failed') failed.push(toOverviewTask(task))
    }
    cursor = next
    if (cursor === undefined) break
  }
  return { examined, failed }
}

function toOverviewTask(snapshot: TaskSnapshot): OverviewTask {
  const { taskId, task, createdAt, callback } = bodyOf(snapshot)
  const { owner } = snapshot
  return { ...owner !== undefined && { owner }, taskId, task, createdAt, ...callback && { callback } }
}
