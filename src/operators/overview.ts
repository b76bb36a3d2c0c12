import { LISTED_STATUSES, type TaskEngine } from '../engine/engine.js'
import type { StoredTask } from '../engine/task.js'
import { describe, type Handler } from '../http/exchange.js'
import { json } from '../http/respond.js'
import { namedOwner } from '../runtime/names.js'
import { errorResponses } from '../openapi/responses.js'
import { readOperations, response, type Fragment } from '../openapi/operation.js'
import { bodyOf } from '../tasks/record/view.js'
import { NOT_STORED } from '../tasks/http/event-stream.js'
import { array, members, object, text, time } from '../tasks/http/formats.js'
import { requireJson } from '../tasks/http/lists.js'
import type { EndpointSettings, OperatorAccess } from '../tasks/http/settings.js'

/** Maximum count of each status, and of the tasks in one page of an engine. */
const MAX_COUNT = 1000
/** Number of final tasks whose callbacks are examined. */
const MAX_EXAMINED = 200
/** Number of tasks whose details are read together. */
const PAGE = 64

export function createOverview<C>(
  { core: { engine } }: EndpointSettings<C>, { admit }: OperatorAccess<C>,
): Handler<C> {
  const handler: Handler<C> = async (request) => {
    if (request.method !== 'GET' && request.method !== 'HEAD') return undefined
    await admit(request)
    requireJson(request)
    const [counts, [oldest], final] = await Promise.all([
      countAll(engine),
      engine.list({ of: 'all', statuses: ['queued'], order: 'oldest', limit: 1 }),
      newestFinal(engine),
    ])
    return json(200, {
      counts,
      // Its pool may be one that no process works.
      ...oldest && { oldestQueued: { ...overviewOf(oldest), pool: oldest.pool } },
      callbacks: {
        examined: final.length,
        failed: final.filter(({ callback }) => callback?.state === 'failed'),
      },
    }, NOT_STORED)
  }
  return describe(handler, operations())
}

async function countAll(engine: TaskEngine): Promise<object> {
  return Object.fromEntries(await Promise.all(LISTED_STATUSES.map(async (status) => {
    const query = {
      of: 'all', statuses: [status], order: 'oldest', omit: ['details', 'result'],
    } as const
    const counted = await engine.list({ ...query, limit: MAX_COUNT })
    const further = counted.length < MAX_COUNT
      ? [] : await engine.list({ ...query, limit: 1, after: counted.at(-1) })
    return [status, { count: counted.length, more: further.length > 0 }] as const
  })))
}

/** Reads the newest final tasks in pages, because each may have details of 100 KB. */
async function newestFinal(engine: TaskEngine): Promise<ReturnType<typeof overviewOf>[]> {
  const final: ReturnType<typeof overviewOf>[] = []
  for (let after: StoredTask | undefined; ;) {
    const limit = Math.min(MAX_EXAMINED - final.length, PAGE)
    const page = await engine.list({
      of: 'all', statuses: ['completed', 'failed', 'cancelled'], order: 'newest', limit, after,
      omit: ['result'],
    })
    final.push(...page.map(overviewOf))
    if (page.length < limit || final.length === MAX_EXAMINED) return final
    after = page.at(-1)
  }
}

function overviewOf(stored: StoredTask) {
  const { taskId, task, createdAt, callback } = bodyOf(stored)
  return { ...namedOwner(stored.owner), taskId, task, createdAt, callback }
}

const taskSchema = (more: Fragment = {}, ...required: string[]) => object({
  owner: text, tenant: text, taskId: text, task: members.task, createdAt: time, callback: members.callback,
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
