import type { StoredTask, TaskStatus } from '../engine/task.js'
import { header, response } from '../openapi/operation.js'
import { oneOf, readOptions, text as string, type OptionTable } from '../runtime/options.js'
import { taskFormat, type TaskFormat } from '../tasks/http/formats.js'

/** Options of `azureFormat`. */
export interface AzureFormatOptions {
  /**
   * Origin of this server for clients, such as `https://api.example.com`. Azure's guidelines require
   * an absolute URL in `Operation-Location`. Never take it from a request.
   * @default none: the header has a path, as `Location` does
   */
  readonly origin?: string
  /**
   * Header that clients follow. `operation-location`: the status resource is always 200, and the
   * result is a property of it. `location`, the older way: 202 while the task runs, then the bare
   * result, 422 if the task failed, or 409 if it was cancelled.
   * @default 'operation-location'
   */
  readonly via?: 'operation-location' | 'location'
}

const OPTIONS = {
  origin: string(),
  via: oneOf(['operation-location', 'location'], { default: 'operation-location' }),
} satisfies OptionTable<AzureFormatOptions>

/** The body of `taskFormat`, as far as this format shows it. */
interface Body {
  readonly task: string
  readonly progress?: { readonly done: number, readonly total?: number, readonly message?: string }
  readonly result?: unknown
  readonly files?: readonly unknown[]
  readonly error?: { readonly code: string, readonly message: string }
  readonly createdAt: string
  readonly startedAt?: string
  readonly finishedAt?: string
}

const STATUS: Readonly<Record<TaskStatus, string>> = {
  queued: 'NotStarted', processing: 'Running', input_required: 'Running', completed: 'Succeeded',
  failed: 'Failed', cancelled: 'Canceled',
}

const text = { type: 'string' }
const time = { type: 'string', format: 'date-time' }
const result = { type: 'object', required: ['message'], properties: { message: text } }
const schema = {
  type: 'object',
  required: ['id', 'kind', 'status', 'createdDateTime'],
  properties: {
    id: text,
    kind: { type: 'string', description: 'The kind of work' },
    status: { enum: [...new Set(Object.values(STATUS))] },
    percentComplete: { type: 'number', minimum: 0, maximum: 100 },
    message: text,
    result,
    files: { type: 'array', items: { type: 'object' } },
    error: { type: 'object', required: ['code', 'message'], properties: { code: text, message: text } },
    createdDateTime: time,
    startDateTime: time,
    endDateTime: time,
  },
}

const MONITOR = {
  toText,
  notFound: 'task_not_found',
  statuses: {
    NotStarted: ['scheduled', 'queued'], Running: ['processing', 'input_required'], Succeeded: ['completed'],
    Failed: ['failed'], Canceled: ['cancelled'],
  },
  schema,
} as const satisfies TaskFormat

/**
 * A format for the option `format` of `taskEndpoints`: a status monitor after Azure's REST guidelines,
 * so that Azure's own clients (`@azure/core-lro` and the like) wait for tasks unchanged. The body is
 * `{ id, kind, status, percentComplete?, message?, result?, error?, createdDateTime, … }`, and `status`
 * is `NotStarted`, `Running`, `Succeeded`, `Failed` or `Canceled`.
 *
 * @example
 * import { azureFormat } from 'longhaul/azure'
 *
 * taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone', format: azureFormat({ origin: 'https://api.example.com' }) })
 * @throws {TypeError} `origin` is no origin, or an option is unknown.
 */
export function azureFormat(options: AzureFormatOptions = {}): TaskFormat {
  const { origin = '', via } = readOptions('azureFormat', options, OPTIONS)
  if (origin !== '' && !isOrigin(origin)) {
    throw new TypeError(`azureFormat: origin must be like https://api.example.com, not ${origin}`)
  }
  if (via === 'operation-location') {
    return {
      ...MONITOR,
      acceptedHeaders: (statusPath) => ({ 'operation-location': origin + statusPath }),
      describe: { acceptedHeaders: { 'Operation-Location': header('Where the status monitor is') } },
    }
  }
  return {
    ...MONITOR,
    shown: (task) => {
      if (task.status === 'failed') return { status: 422 }
      if (task.status === 'cancelled') return { status: 409 }
      if (task.status !== 'completed') return { status: 202 }
      return { status: 200, text: JSON.stringify(bodyOf(task, '').result) }
    },
    describe: {
      result,
      shown: {
        202: response('The task continues', { schema }),
        409: response('The task was cancelled', { schema }),
        422: response('The task failed', { schema }),
      },
    },
  }
}

function isOrigin(text: string): boolean {
  return /^https?:/.test(text) && URL.canParse(text) && new URL(text).origin === text
}

function toText(task: StoredTask, statusPath: string): string {
  const {
    task: kind, progress, result, files, error, createdAt, startedAt, finishedAt,
  } = bodyOf(task, statusPath)
  return JSON.stringify({
    id: task.id, kind, status: STATUS[task.status],
    percentComplete: task.status === 'completed' ? 100 : percentOf(progress),
    message: progress?.message, result, files,
    error: task.status === 'cancelled' ? { code: 'task_cancelled', message: 'The task was cancelled.' } : error,
    createdDateTime: createdAt, startDateTime: startedAt, endDateTime: finishedAt,
  })
}

/** Parses the body of the default format, in which files have URLs. */
function bodyOf(task: StoredTask, statusPath: string): Body {
  return JSON.parse(taskFormat.toText(task, statusPath)) as Body
}

function percentOf({ done, total }: Partial<NonNullable<Body['progress']>> = {}): number | undefined {
  if (done === undefined || total === undefined || !(total > 0)) return undefined
  return Math.min(100, Math.max(0, Math.floor(100 * done / total)))
}
