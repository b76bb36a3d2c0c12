import { json, type Handler, type Task, type Tasks } from 'longhaul'
import {
  describe, errorResponses, fields, operation, response, type Fragment,
} from 'longhaul/openapi'
import type { ListedStatus, TaskIndex } from 'longhaul/stores'
import type { Context } from './auth.js'

const STATUSES: readonly ListedStatus[] = [
  'scheduled', 'queued', 'processing', 'completed', 'failed', 'cancelled',
]
/** Maximum of each count, because a list has no total. */
const MAX_COUNT = 1000
/** Number of final tasks, the newest first, whose callbacks are looked at. A page has at most 200. */
const CALLBACKS_OF = 200

/** A callback that was not delivered: it failed, or it failed so far and is tried again. */
interface FailingCallback {
  readonly taskId: string
  readonly task: string
  readonly owner: string | undefined
  readonly callback: Task['callback']
}

/**
 * GET /admin/overview: the tasks of all owners in figures. The cost does not grow with the number
 * of tasks: each count ends at 1000.
 */
export function operatorOverview(tasks: Tasks, index: TaskIndex): Handler<Context> {
  const headers = { 'cache-control': 'no-store' }
  return describe<Context>(async () => json(200, {
    countedTo: MAX_COUNT,
    counts: await countsOf(index),
    oldestWaiting: await oldestWaiting(index),
    callbacks: { inspected: CALLBACKS_OF, failing: await failingCallbacks(tasks, index) },
  }, headers), [operation('GET', {
    summary: 'The tasks of all owners in figures, for operators',
    responses: {
      200: response('Figures', { headers: fields('Cache-Control'), schema: SCHEMA }),
      ...errorResponses('store_unavailable'),
    },
  })])
}

async function countsOf(index: TaskIndex): Promise<Record<string, number>> {
  const counts = await Promise.all(STATUSES.map(async (status) => {
    const query = { of: 'all', statuses: [status], order: 'newest', limit: MAX_COUNT } as const
    return [status, (await index.list(query)).length] as const
  }))
  return Object.fromEntries(counts)
}

async function oldestWaiting(index: TaskIndex): Promise<object | undefined> {
  const [oldest] = await index.list({ of: 'all', statuses: ['queued'], order: 'oldest', limit: 1 })
  if (oldest === undefined) return undefined
  const { id, name, owner, createdAt } = oldest
  return { taskId: id, task: name, owner, createdAt: new Date(createdAt).toISOString() }
}

async function failingCallbacks(tasks: Tasks, index: TaskIndex): Promise<FailingCallback[]> {
  const status = ['completed', 'failed', 'cancelled'] as const
  const query = { of: 'all', statuses: status, order: 'newest', limit: CALLBACKS_OF } as const
  const [{ items }, entries] = await Promise.all([
    tasks.list({ status, limit: CALLBACKS_OF }), index.list(query),
  ])
  const owners = new Map(entries.map(({ id, owner }) => [id, owner]))
  return items.flatMap(({ taskId, task, callback }) => (
    isFailing(callback) ? [{ taskId, task, owner: owners.get(taskId), callback }] : []
  ))
}

function isFailing(callback: Task['callback']): boolean {
  const { state, attempts } = callback ?? {}
  return state === 'failed' || (state === 'pending' && attempts !== 0)
}

const WHICH = {
  taskId: { type: 'string' }, task: { type: 'string' }, owner: { type: 'string' },
}

const SCHEMA: Fragment = {
  type: 'object',
  required: ['counts', 'countedTo', 'callbacks'],
  properties: {
    countedTo: { type: 'integer', description: 'A count of this many means this many or more' },
    counts: {
      type: 'object',
      properties: Object.fromEntries(STATUSES.map((status) => [status, { type: 'integer' }])),
    },
    oldestWaiting: {
      type: 'object',
      description: 'The oldest task that waits for a run; absent if none does',
      properties: { ...WHICH, createdAt: { type: 'string', format: 'date-time' } },
    },
    callbacks: {
      type: 'object',
      required: ['inspected', 'failing'],
      properties: {
        inspected: { type: 'integer', description: 'How many of the newest final tasks were looked at' },
        failing: {
          type: 'array',
          items: { type: 'object', properties: { ...WHICH, callback: { type: 'object' } } },
        },
      },
    },
  },
}
