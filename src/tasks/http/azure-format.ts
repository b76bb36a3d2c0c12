import type { ResponseHeaders } from '../../http/exchange.js'
import { checkNames } from '../../runtime/option-names.js'
import { header, response } from '../../openapi/operation.js'
import type { TaskSnapshot } from '../record/snapshot.js'
import { members, text, time, type TaskFormat, type TaskFormatResponse } from './formats.js'
import { isFinalStatus, type TaskStatus } from '../../engine/task.js'
import { fileLinks } from '../record/outside.js'
import { bodyOf, type TaskBody } from '../record/view.js'

/** Settings of `azureFormat`. */
export interface AzureFormatOptions {
  /**
   * Origin of this server for clients, such as `https://api.example.com`. Azure's guidelines
   * require an absolute URL in `Operation-Location`. It is never taken from a request. Default:
   * none, and the field holds the path, as `Location` does.
   */
  readonly origin?: string
  /**
   * Header field that clients follow. `operation-location` (default): the status resource is a
   * status monitor. It is always 200, and the result is a property of it. `location`: the older way,
   * without `Operation-Location`. The status resource responds with 202 while the task runs, and with the
   * bare result once it is completed. It responds with 422 if the task failed, 409 if it was cancelled.
   */
  readonly via?: 'operation-location' | 'location'
}

const KNOWN = { origin: 0, via: 0 } satisfies Record<keyof AzureFormatOptions, 0>

const STATUS: Readonly<Record<TaskStatus, string>> = {
  queued: 'NotStarted', processing: 'Running', completed: 'Succeeded', failed: 'Failed', cancelled: 'Canceled',
}

const STATUSES = {
  NotStarted: ['scheduled', 'queued'], Running: ['processing'], Succeeded: ['completed'],
  Failed: ['failed'], Canceled: ['cancelled'],
} as const

const schema = {
  type: 'object',
  required: ['id', 'kind', 'status', 'createdDateTime'],
  properties: {
    id: text,
    kind: { type: 'string', description: 'The kind of work' },
    status: { enum: Object.values(STATUS) },
    percentComplete: { type: 'number', minimum: 0, maximum: 100 },
    message: text,
    result: members.result,
    files: members.files,
    error: members.error,
    createdDateTime: time,
    startDateTime: time,
    endDateTime: time,
  },
}

const operationLocation = {
  'Operation-Location': header('Where the status monitor of this operation is'),
}

/**
 * The Azure format: a status monitor after Azure's REST guidelines, so that Azure's own clients
 * (`@azure/core-lro` and the like) wait for tasks unchanged. The body is `{ id, kind, status,
 * percentComplete?, message?, result?, error?, createdDateTime, … }`, and `status` is `NotStarted`,
 * `Running`, `Succeeded`, `Failed` or `Canceled`.
 * @throws {TypeError} when `origin` is not `http(s)://host[:port]`
 */
export function azureFormat(options: AzureFormatOptions = {}): TaskFormat {
  checkNames('azureFormat', options, KNOWN)
  const { origin = '', via = 'operation-location' } = options
  if (origin !== '' && !isOrigin(origin)) {
    throw new TypeError(
      `azureFormat: origin must be like https://api.example.com, not ${JSON.stringify(origin)}`,
    )
  }
  const monitor = {
    toText, notFound: 'task_not_found', statuses: STATUSES, schema,
  } as const
  if (via === 'operation-location') {
    return {
      ...monitor,
      acceptedFields: (statusPath): ResponseHeaders =>
        ({ 'operation-location': origin + statusPath }),
      describe: { acceptedFields: operationLocation },
    }
  }
  if (via !== 'location') {
    throw new TypeError('azureFormat: via must be operation-location or location')
  }
  return {
    ...monitor,
    shown,
    describe: {
      result: members.result,
      shown: {
        202: response('The task goes on', { schema }),
        409: response('The task was cancelled', { schema }),
        422: response('The task failed', { schema }),
      },
    },
  }
}

function isOrigin(text: string): boolean {
  return /^https?:/.test(text) && URL.canParse(text) && new URL(text).origin === text
}

function toText(task: TaskSnapshot, statusPath: string): string {
  const { task: kind, progress, result, files, error, createdAt, startedAt, finishedAt } = bodyOf(task)
  return JSON.stringify({
    id: task.id, kind, status: STATUS[task.state], percentComplete: percentOf(task, progress),
    message: progress?.message, result, files: files && fileLinks(files, statusPath),
    error: task.state === 'cancelled'
      ? { code: 'task_cancelled', message: 'The task was cancelled.' }
      : error,
    createdDateTime: createdAt, startDateTime: startedAt, endDateTime: finishedAt,
  })
}

function percentOf(task: TaskSnapshot, progress: TaskBody['progress']): number | undefined {
  if (task.state === 'completed') return 100
  const { done, total } = progress ?? {}
  if (done === undefined || total === undefined || !(total > 0)) return undefined
  return Math.min(100, Math.max(0, Math.floor(100 * done / total)))
}

function shown(task: TaskSnapshot): TaskFormatResponse {
  if (!isFinalStatus(task.state)) return { status: 202 }
  if (task.state === 'cancelled') return { status: 409 }
  if (task.state === 'failed') return { status: 422 }
  return { status: 200, text: JSON.stringify(bodyOf(task).result) }
}
