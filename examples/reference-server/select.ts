import { httpError, type ErrorDetail, type FindStart, type Select, type Selected, type Tasks } from 'longhaul'
import type { Context } from './auth.js'

/** The tasks that a client may name. The others have their own endpoints. */
const ANY_JOB = 'process-job'
const OFFERED = ['wait', 'checksum', 'export-users', ANY_JOB]
const OF_WAIT = new Set(['ms', 'fail'])

/** Reads the start of a task for later, which every submission may have. */
export const startAt: FindStart<Context> = (body) => body['startAt']

/** The work that a request names: the task, its input, and the pointer to the input in the body. */
interface Wanted {
  readonly task: string
  readonly input: unknown
  readonly pointer: string
}

/** SPEC 4.6: `{ task, data }`. */
export function byTaskAndData(tasks: Tasks): Select {
  return (body) => find(tasks, readTaskAndData(body))
}

/** Job data may be any JSON, because SPEC 4.7 does not define it. With a `task` beside it, the other members are the input of that task. */
export function byJobData(tasks: Tasks): Select {
  return (body) => find(tasks, readJobData(body))
}

function readTaskAndData(body: unknown): Wanted {
  const { task, data, callbackUrl: _, startAt: _startAt, ...others } = object(body)
  const details: ErrorDetail[] = Object.keys(others).map((name) => ({ pointer: `/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`, message: 'is not a known member' }))
  if (typeof task !== 'string') details.push({ pointer: '/task', message: task === undefined ? 'is required' : 'must be string' })
  if (!isObject(data)) details.push({ pointer: '/data', message: data === undefined ? 'is required' : 'must be object' })
  if (details.length > 0) throw httpError('invalid_input', { details })
  return { task: task as string, input: data, pointer: '/data' }
}

function readJobData(body: unknown): Wanted {
  if (!isObject(body)) return { task: ANY_JOB, input: body, pointer: '' }
  const { task, callbackUrl: _, startAt: _startAt, ...input } = body
  // Input of `wait` needs no name. Other data goes to the job that accepts any.
  if (task === undefined) return { task: Object.keys(input).every((name) => OF_WAIT.has(name)) ? 'wait' : ANY_JOB, input, pointer: '' }
  if (typeof task !== 'string') throw httpError('invalid_input', { details: [{ pointer: '/task', message: 'must be string' }] })
  return { task, input, pointer: '' }
}

function find(tasks: Tasks, { task, input, pointer }: Wanted): Selected {
  const definition = OFFERED.includes(task) ? tasks.definition(task) : undefined
  if (definition) return { definition, input, pointer }
  const names = OFFERED.join(', ')
  throw httpError('unknown_task', {
    message: `There is no task of this name; there are ${names}.`,
    details: [{ pointer: '/task', message: `must be one of ${names}` }],
  })
}

function object(body: unknown): Record<string, unknown> {
  if (isObject(body)) return body
  throw httpError('invalid_input', { details: [{ pointer: '', message: 'must be object' }] })
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
