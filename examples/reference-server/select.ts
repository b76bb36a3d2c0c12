import { httpError, type ErrorDetail, type Select, type Selected, type Tasks } from 'longhaul'

/** The tasks that a client may name; the others belong to endpoints of their own. */
const OFFERED = ['wait', 'checksum', 'export-users']

/** What a request for work names: the task, its input, and where in the body that input is. */
interface Wanted {
  readonly task: string
  readonly input: unknown
  readonly pointer: string
}

/** SPEC 4.6: `{ task, data }`. */
export function byTaskAndData(tasks: Tasks): Select {
  return (body) => find(tasks, readTaskAndData(body))
}

/** SPEC 4.7 leaves open what job data is. Here it is the input itself, and `task` beside it tells what to do. */
export function byJobData(tasks: Tasks): Select {
  return (body) => find(tasks, readJobData(body))
}

function readTaskAndData(body: unknown): Wanted {
  const { task, data } = object(body)
  const details: ErrorDetail[] = []
  if (typeof task !== 'string') details.push({ pointer: '/task', message: task === undefined ? 'is required' : 'must be string' })
  if (!isObject(data)) details.push({ pointer: '/data', message: data === undefined ? 'is required' : 'must be object' })
  if (details.length > 0) throw httpError('invalid_input', { details })
  return { task: task as string, input: data, pointer: '/data' }
}

function readJobData(body: unknown): Wanted {
  const { task = 'wait', callbackUrl: _, ...input } = object(body)
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
