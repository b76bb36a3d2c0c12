import { LISTED_STATUSES, type ListedStatus, type TaskEngine } from '../../engine/engine.js'
import { compose, describe, type Handler, type Operation, type Policy } from '../../http/exchange.js'
import { json } from '../../http/respond.js'
import { errorResponses, fields } from '../../openapi/responses.js'
import { operation, response, type Fragment } from '../../openapi/operation.js'
import { readOptions, value, type OptionTable } from '../../runtime/options.js'
import type { TaskService } from '../core/task-service.js'
import type { ListFilter } from '../lists.js'
import type { TaskSnapshot } from '../record/snapshot.js'
import { bodyOf, type TaskBody } from '../record/view.js'
import { members, text, time } from './formats.js'
import { policiesOf, requireJson } from './lists.js'
import type { EndpointSettings } from './settings.js'

/** Options of `operatorOverview`. */
export interface OperatorOverviewOptions<C = unknown> {
  /**
   * Policies that reject everybody but operators, such as `authorize({ allow, reason })`. They run
   * first. Required, because the overview is about the tasks of all owners.
   */
  readonly authorize: Policy<C> | readonly Policy<C>[]
}

const OPTIONS = { authorize: value() } satisfies OptionTable<OperatorOverviewOptions>

/** Maximum count of each status. Counting more would cost more with each task. */
const MAX_COUNT = 1000
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

interface OverviewTask extends Pick<TaskBody, 'taskId' | 'task' | 'createdAt' | 'callback'> {
  readonly owner?: string
}

interface WaitingTask extends OverviewTask {
  readonly pool: string
}

/** Creates the handler of the operators' overview. See `TaskEndpoints.operatorOverview`. */
export function createOverview<C>(
  { service }: EndpointSettings<C>, options: OperatorOverviewOptions<C>,
): Handler<C> {
  const { authorize } = readOptions('operatorOverview', options, OPTIONS)
  const handler: Handler<C> = async (request) => {
    if (request.method !== 'GET' && request.method !== 'HEAD') return undefined
    requireJson(request)
    const [counts, oldestQueued, callbacks] = await Promise.all([
      countAll(service.core.engine), findOldest(service), failingCallbacks(service),
    ])
    return json(200, {
      counts,
      ...oldestQueued && { oldestQueued },
      callbacks,
    }, { 'cache-control': 'no-store', 'vary': 'Accept, Authorization' })
  }
  const policies = policiesOf('operatorOverview', authorize)
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

const task = {
  type: 'object',
  required: ['taskId', 'task', 'createdAt'],
  properties: {
    owner: text, taskId: text, task: members.task, createdAt: time, callback: members.callback,
  },
} satisfies Fragment

const count: Fragment = {
  type: 'object',
  required: ['count', 'more'],
  properties: {
    count: { type: 'integer', minimum: 0, maximum: 1000 },
    more: { type: 'boolean', description: 'True if there are more' },
  },
}

const schema: Fragment = {
  type: 'object',
  required: ['counts', 'callbacks'],
  properties: {
    counts: {
      type: 'object',
      required: LISTED_STATUSES,
      properties: Object.fromEntries(LISTED_STATUSES.map((status) => [status, count])),
    },
    oldestQueued: {
      ...task,
      required: [...task.required, 'pool'],
      properties: { ...task.properties, pool: text },
      description: 'The task that has waited longest; absent if none waits',
    },
    callbacks: {
      type: 'object',
      required: ['examined', 'failed'],
      properties: {
        examined: { type: 'integer', description: 'The number of newest final tasks that were read' },
        failed: {
          type: 'array', items: task, description: 'Those of them whose callback has failed',
        },
      },
    },
  },
}

function overviewOperations(): readonly Operation[] {
  const headers = fields('Cache-Control', 'Vary')
  const failures = errorResponses('not_acceptable', 'store_unavailable')
  return [
    operation('GET', {
      summary: 'Counts of tasks, the oldest waiting one, and failed callbacks',
      responses: { 200: response('The overview', { schema, headers }), ...failures },
    }),
    operation('HEAD', {
      summary: 'The headers of GET',
      responses: { 200: response('The headers of the response to GET', { headers }), ...failures },
    }),
  ]
}
