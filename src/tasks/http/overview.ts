import { LISTED_STATUSES, type TaskEngine } from '../../engine/engine.js'
import type { StoredTask } from '../../engine/task.js'
import { describe, type Handler, type Policy } from '../../http/exchange.js'
import { json } from '../../http/respond.js'
import { errorResponses, fields } from '../../openapi/responses.js'
import { readOperations, response, type Fragment } from '../../openapi/operation.js'
import { readOptions, value, type OptionTable } from '../../runtime/options.js'
import { Snapshot, bodyOf } from '../record/view.js'
import { array, members, object, text, time } from './formats.js'
import { forOperators, requireJson } from './lists.js'
import type { EndpointSettings } from './settings.js'

/** Options of `operatorOverview`. */
export interface OperatorOverviewOptions<C = unknown> {
  /** Policies that reject everybody but operators, such as `authorize({ allow, reason })`. */
  readonly authorize: Policy<C> | readonly Policy<C>[]
}

const OPTIONS = { authorize: value() } satisfies OptionTable<OperatorOverviewOptions>

const MAX_COUNT = 1000
/** Number of final tasks whose callbacks are examined. */
const MAX_EXAMINED = 200

export function createOverview<C>(
  { service: { core: { engine } } }: EndpointSettings<C>, options: OperatorOverviewOptions<C>,
): Handler<C> {
  const { authorize } = readOptions('operatorOverview', options, OPTIONS)
  const handler: Handler<C> = async (request) => {
    if (request.method !== 'GET' && request.method !== 'HEAD') return undefined
    requireJson(request)
    const [counts, [oldest], final] = await Promise.all([
      countAll(engine),
      engine.list({ of: 'all', statuses: ['queued'], order: 'oldest', limit: 1 }),
      engine.list({
        of: 'all', statuses: ['completed', 'failed', 'cancelled'], order: 'newest', limit: MAX_EXAMINED,
      }),
    ])
    const shown = final.map(overviewOf)
    return json(200, {
      counts,
      // Its pool may be one that no process works.
      ...oldest && { oldestQueued: { ...overviewOf(oldest), pool: oldest.pool } },
      callbacks: {
        examined: final.length,
        failed: shown.filter(({ callback }) => callback?.state === 'failed'),
      },
    }, { 'cache-control': 'no-store', 'vary': 'Accept, Authorization' })
  }
  return forOperators('operatorOverview', authorize, describe(handler, operations()))
}

async function countAll(engine: TaskEngine): Promise<object> {
  return Object.fromEntries(await Promise.all(LISTED_STATUSES.map(async (status) => {
    const limit = MAX_COUNT + 1
    const { length } = await engine.list({ of: 'all', statuses: [status], order: 'oldest', limit })
    return [status, { count: Math.min(length, MAX_COUNT), more: length > MAX_COUNT }] as const
  })))
}

function overviewOf(stored: StoredTask) {
  const { taskId, task, createdAt, callback } = bodyOf(new Snapshot(stored))
  return { owner: stored.owner, taskId, task, createdAt, callback }
}

const taskSchema = (more: Fragment = {}, ...required: string[]) => object({
  owner: text, taskId: text, task: members.task, createdAt: time, callback: members.callback,
  ...more,
}, 'taskId', 'task', 'createdAt', ...required)

const countSchema = object({
  count: { type: 'integer', minimum: 0, maximum: MAX_COUNT },
  more: { type: 'boolean', description: 'True if there are more' },
}, 'count', 'more')

const operations = () => readOperations({
  summary: 'Counts of tasks, the oldest waiting one, and failed callbacks',
  responses: {
    200: response('The overview', {
      headers: fields('Cache-Control', 'Vary'),
      schema: object({
        counts: object(
          Object.fromEntries(LISTED_STATUSES.map((status) => [status, countSchema])), ...LISTED_STATUSES,
        ),
        oldestQueued: {
          ...taskSchema({ pool: text }, 'pool'),
          description: 'The task that has waited longest; absent if none waits',
        },
        callbacks: object({
          examined: { type: 'integer', description: 'The number of newest final tasks that were read' },
          failed: { ...array(taskSchema()), description: 'Those of them whose callback has failed' },
        }, 'examined', 'failed'),
      }, 'counts', 'callbacks'),
    }),
    ...errorResponses('not_acceptable', 'store_unavailable'),
  },
})
