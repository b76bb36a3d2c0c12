import { httpError, type ErrorDetail, type FindStart, type Select, type Tasks } from 'longhaul'
import type { Context } from './auth.js'
import { anyTask } from './tasks/any-task.js'

/** The demo tasks. Each has a schema for its `data`. */
const DEMO_TASKS = ['wait', 'checksum', 'export-users', 'tell', 'invite']

/** Reads the start of a task for later from the body. */
export const startAt: FindStart<Context> = (body) => body['startAt']

/** Selects a demo task by `{ task, data }` (SPEC 4.6). Selects `anyTask` for each other name. */
export function byTaskAndData(tasks: Tasks): Select {
  return (body) => {
    const { task, data } = readTaskAndData(body)
    const definition = DEMO_TASKS.includes(task) ? tasks.definition(task) : undefined
    return definition ? { definition, input: data, pointer: '/data' } : { definition: anyTask, input: { task, data } }
  }
}

function readTaskAndData(body: unknown): { readonly task: string, readonly data: unknown } {
  if (!isObject(body)) throw httpError('invalid_input', { details: [{ pointer: '', message: 'must be object' }] })
  const { task, data, callbackUrl: _, startAt: _startAt, ...others } = body
  const details: ErrorDetail[] = Object.keys(others).map((name) => ({ pointer: `/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`, message: 'is not a known property' }))
  if (typeof task !== 'string') details.push({ pointer: '/task', message: task === undefined ? 'is required' : 'must be string' })
  if (!isObject(data)) details.push({ pointer: '/data', message: data === undefined ? 'is required' : 'must be object' })
  if (details.length > 0) throw httpError('invalid_input', { details })
  return { task: task as string, data }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
