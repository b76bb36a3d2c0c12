import type { ErrorCode } from '../../http/errors.js'
import type { ResponseHeaders } from '../../http/exchange.js'
import type { Fragment } from '../../openapi/operation.js'
import type { TaskSnapshot } from '../record/codec.js'

/**
 * How a task looks to clients: one pure function from the record to the body of a status answer.
 */
export interface Face {
  /** The body, as JSON text, of both the 202 and the status resource. */
  readonly toText: (task: TaskSnapshot, statusPath: string) => string
  /** The code of the 404 for an id that is unknown, expired or someone else's. */
  readonly notFound: ErrorCode
  /** JSON Schema of the body, for the OpenAPI document. */
  readonly schema: Readonly<Record<string, unknown>>
  /** Header fields of the 202 beside the usual ones. */
  readonly acceptedFields?: (statusPath: string) => ResponseHeaders
  /** How a GET of the status resource answers, where that is not 200 with `toText`. */
  readonly shown?: (task: TaskSnapshot) => FaceAnswer
  /** What the two above add to the OpenAPI document. */
  readonly describe?: FaceDescription
}

/** One answer of a status resource. */
export interface FaceAnswer {
  readonly status: number
  /** The body as JSON text. Default: `toText`. */
  readonly text?: string
}

/** What a face of its own way says of itself, as pieces of an OpenAPI document. */
export interface FaceDescription {
  /** Header objects by name, of the 202. */
  readonly acceptedFields?: Readonly<Record<string, Fragment>>
  /** JSON Schema of the 200 of the status resource, where it is not that of the face. */
  readonly result?: Fragment
  /** Response objects of the status resource for other statuses. */
  readonly shown?: Readonly<Record<string, Fragment>>
}

export const time = { type: 'string', format: 'date-time' }
export const text = { type: 'string' }

export const members = {
  message: text,
  task: { type: 'string', description: 'The kind of work' },
  attempt: { type: 'integer', minimum: 1, description: 'The number of the latest run' },
  progress: {
    type: 'object',
    required: ['done'],
    properties: { done: { type: 'number' }, total: { type: 'number' }, message: text },
  },
  result: { type: 'object', required: ['message'], properties: { message: text } },
  error: {
    type: 'object',
    required: ['code', 'message'],
    properties: {
      code: text, message: text,
      details: { type: 'array', items: { type: 'object', required: ['pointer', 'message'], properties: { pointer: text, message: text } } },
    },
  },
  callback: {
    type: 'object',
    required: ['state', 'attempts'],
    properties: {
      state: { enum: ['waiting', 'pending', 'delivered', 'failed'] }, attempts: { type: 'integer' }, lastStatus: { type: 'integer' },
      fault: text, nextAttemptAt: time, deliveredAt: time,
    },
  },
  createdAt: time,
  startAt: { ...time, description: 'When the first run may begin, of a task for later' },
  startedAt: time,
  finishedAt: time,
}

/**
 * The task face (SPEC 2.4, 2.5): `{ taskId, status, message, progress?, result?, error?, createdAt,
 * … }`.
 */
export const taskFace: Face = {
  toText: (task) => task.face,
  notFound: 'task_not_found',
  schema: {
    type: 'object',
    required: ['taskId', 'status', 'message', 'task', 'createdAt'],
    properties: {
      taskId: text,
      status: { enum: ['processing', 'completed', 'failed', 'cancelled'] },
      ...members,
    },
  },
}
