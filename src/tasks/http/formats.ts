import { Buffer } from 'node:buffer'
import { isFinalStatus, type StoredTask } from '../../engine/task.js'
import type { ErrorCode } from '../../http/errors.js'
import type { ResponseHeaders } from '../../http/exchange.js'
import { httpDate } from '../../http/headers/dates.js'
import type { Fragment, Properties } from '../../openapi/fragment.js'
import { LISTED_STATUSES, type ListedStatus } from '../../engine/engine.js'
import type * as wire from '../../wire/task.js'
import { bodyOf, listedStatus, taskText } from '../record/view.js'
import { fileLinks } from '../record/outside.js'

/** Representation of a task in the 202 and in the status resource. */
export interface TaskFormat {
  /** Returns the body, as JSON. */
  readonly toText: (task: StoredTask, statusPath: string) => string
  /** Code of the 404 for an id that is unknown, expired or another owner's. */
  readonly notFound: ErrorCode
  /**
   * For each word of the parameter `status` of a list: the statuses that it means. Default: those
   * of `taskFormat`.
   */
  readonly statuses?: Readonly<Record<string, readonly ListedStatus[]>>
  /** JSON Schema of the body, for the OpenAPI document. */
  readonly schema: Readonly<Record<string, unknown>>
  /** Returns further headers of the 202. */
  readonly acceptedHeaders?: (statusPath: string) => ResponseHeaders
  /** Returns the response to a GET of the status resource, if that is not 200 with `toText`. */
  readonly shown?: (task: StoredTask) => TaskFormatResponse
  /** Describes `acceptedHeaders` and `shown` for the OpenAPI document. */
  readonly describe?: TaskFormatDescription
}

/** One response of a status resource. */
export interface TaskFormatResponse {
  readonly status: number
  /** Body as JSON. Default: `toText`. */
  readonly text?: string
}

/** Parts of the OpenAPI document for `acceptedHeaders` and `shown`. */
export interface TaskFormatDescription {
  /** Header objects by name, of the 202. */
  readonly acceptedHeaders?: Readonly<Record<string, Fragment>>
  /** JSON Schema of the 200 of the status resource, if that is not the schema of the format. */
  readonly result?: Fragment
  /** Response objects of the status resource for other statuses. */
  readonly shown?: Readonly<Record<string, Fragment>>
}

export const time = { type: 'string', format: 'date-time' }
export const text = { type: 'string' }
export const array = (items: Fragment) => ({ type: 'array', items })
export const object = (properties: Fragment, ...required: string[]) => (
  { type: 'object', ...required.length > 0 && { required }, properties }
)
const uri = { type: 'string', format: 'uri-reference' }
const count = { type: 'integer', minimum: 0 }

export const members = {
  message: text,
  task: { ...text, description: 'The kind of work' },
  attempt: { type: 'integer', minimum: 1, description: 'The number of the latest run' },
  inputs: {
    type: 'object',
    description: 'The questions that the task waits for, by their keys; POST answers to {status}/input',
    additionalProperties: object({
      message: text, schema: { type: 'object', description: 'JSON Schema of the answer' },
      askedAt: time, expiresAt: time,
    } satisfies Properties<wire.TaskInput>, 'message', 'askedAt', 'expiresAt'),
  },
  progress: object({
    done: { type: 'number' }, total: { type: 'number' }, message: text, unit: text,
  } satisfies Properties<wire.TaskProgress>, 'done'),
  result: { description: 'What the task returned' },
  files: {
    ...array(object({
      name: text, url: uri, size: count,
      type: { ...text, description: 'Media type' },
      digest: { ...text, description: 'SHA-256, as in Repr-Digest' },
    } satisfies Properties<wire.ServedFile>, 'name', 'url', 'size', 'type', 'digest')),
    description: 'The files of a completed task',
  },
  error: {
    title: 'Task error',
    ...object({
      code: text, message: text,
      details: array(object({ pointer: text, message: text }, 'pointer', 'message')),
    } satisfies Properties<wire.TaskFailure>, 'code', 'message'),
  },
  attempts: {
    ...array(object({
      attempt: { type: 'integer', minimum: 1 }, startedAt: time, endedAt: time,
      error: object({ code: text, message: text }, 'code', 'message'),
    } satisfies Properties<wire.PastAttempt>, 'attempt', 'startedAt', 'endedAt')),
    description: 'The last ten runs that have ended, if there was more than one',
  },
  callback: {
    title: 'Callback state',
    ...object({
      state: { enum: ['waiting', 'pending', 'delivered', 'failed'] },
      attempts: { type: 'integer' }, lastStatus: { type: 'integer' },
      fault: text, nextAttemptAt: time, deliveredAt: time,
    } satisfies Properties<wire.TaskCallback>, 'state', 'attempts'),
  },
  createdAt: time,
  startAt: { ...time, description: 'When the first run may begin, of a task for later' },
  startedAt: time,
  finishedAt: time,
} satisfies Properties<Omit<wire.TaskBody, 'taskId' | 'status'>>

export const TASK_STATUSES = {
  processing: ['scheduled', 'queued', 'processing'], input_required: ['input_required'],
  completed: ['completed'], failed: ['failed'], cancelled: ['cancelled'],
} as const

/** The task format: `{ taskId, status, message, progress?, result?, error?, createdAt, … }`. */
export const taskFormat: TaskFormat = {
  toText: taskText,
  notFound: 'task_not_found',
  statuses: TASK_STATUSES,
  schema: {
    title: 'Task',
    ...object({
      taskId: text, status: { enum: Object.keys(TASK_STATUSES) }, ...members,
    }, 'taskId', 'status', 'message', 'task', 'createdAt'),
  },
}

/** The job format: `{ id, state, jobId, statusUrl, … }`. */
export const jobFormat: TaskFormat = {
  toText: (task, statusPath) => {
    const { taskId, status, files, ...rest } = bodyOf(task)
    const state = listedStatus(task)
    return JSON.stringify({
      id: taskId,
      state: status === 'processing' ? state : status,
      jobId: taskId,
      statusUrl: statusPath,
      ...rest,
      ...files && { files: fileLinks(files, statusPath) },
    })
  },
  notFound: 'job_not_found',
  statuses: Object.fromEntries(LISTED_STATUSES.map((status) => [status, [status]])),
  schema: {
    title: 'Job',
    ...object({
      id: text, state: { enum: LISTED_STATUSES }, jobId: text, statusUrl: uri, ...members,
    }, 'id', 'state', 'jobId', 'statusUrl', 'message', 'task', 'createdAt'),
  },
}

/** Longest Retry-After of a task for later: it may be cancelled meanwhile. */
const LONGEST_POLL_MS = 3_600_000

/**
 * Returns the value of Retry-After, in seconds: the longer the work has taken, the longer the
 * delay.
 */
export function pollAfter({ createdAt, startAt = createdAt }: StoredTask): string {
  const age = Date.now() - startAt
  if (age < 0) return String(Math.ceil(Math.min(-age, LONGEST_POLL_MS) / 1000))
  return age < 10_000 ? '1' : age < 60_000 ? '2' : age < 600_000 ? '5' : '15'
}

/**
 * Returns the strong entity tag. It also changes, without a change of the task, once the task is no
 * longer `scheduled`.
 */
export function etagOf(task: StoredTask): string {
  return `"${eventId(task)}${listedStatus(task) === 'scheduled' ? '-scheduled' : ''}"`
}

export function statusHeaders(task: StoredTask): ResponseHeaders {
  const headers: ResponseHeaders = {
    'etag': etagOf(task),
    'cache-control': 'private, no-cache',
    'vary': 'Prefer, Accept, Authorization',
    'sunset': httpDate(task.expiresAt),
  }
  if (!isFinalStatus(task.status)) headers['retry-after'] = pollAfter(task)
  return headers
}

/** Returns the id of a version of a task, for Last-Event-ID. */
export function eventId(task: StoredTask): string {
  return `${String(task.createdAt)}-${String(task.version)}`
}

type Encode = (task: StoredTask, statusUrl: string) => Uint8Array

/** Returns functions that encode bodies and events, for all requests that wait for a task. */
export const encodedBodies = ({ toText }: TaskFormat) => ({
  event: encodedOnce((task, url) => `id: ${eventId(task)}\ndata: ${toText(task, url)}\n\n`),
  body: encodedOnce(toText),
})

export type EncodedBodies = ReturnType<typeof encodedBodies>

/** Encodes each version of a task once. One string would be copied for every slow connection. */
function encodedOnce(toText: TaskFormat['toText']): Encode {
  const encoded = new WeakMap<StoredTask, { statusUrl: string, bytes: Uint8Array }>()
  return (task, statusUrl) => {
    const last = encoded.get(task)
    if (last?.statusUrl === statusUrl) return last.bytes
    const bytes = Buffer.from(toText(task, statusUrl))
    encoded.set(task, { statusUrl, bytes })
    return bytes
  }
}
