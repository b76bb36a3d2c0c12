import { isObject } from './json-object.js'

/** How far a task is. */
export interface TaskProgress {
  readonly done: number
  readonly total?: number
  readonly message?: string
}

/**
 * A task as its status resource shows it, whether as a task (`status`, `taskId`) or as a job
 * (`state`, `id`).
 */
export interface TaskStatus<R = unknown> {
  readonly id: string | undefined
  readonly state: 'queued' | 'processing' | 'completed' | 'failed' | 'cancelled'
  readonly message: string | undefined
  readonly progress: TaskProgress | undefined
  /** Once it is completed. */
  readonly result: R | undefined
  /** Once it has failed. */
  readonly error: { readonly code: string | undefined; readonly message: string } | undefined
  /** The body as the server sent it. */
  readonly body: Readonly<Record<string, unknown>>
}

/**
 * SPEC names no states of a job, so the words of other servers are known too. Any other word is
 * work under way.
 */
const STATES: Readonly<Record<string, TaskStatus['state']>> = {
  queued: 'queued', waiting: 'queued', delayed: 'queued', pending: 'queued', notstarted: 'queued',
  completed: 'completed', complete: 'completed', succeeded: 'completed', success: 'completed', done: 'completed', finished: 'completed',
  failed: 'failed', error: 'failed',
  cancelled: 'cancelled', canceled: 'cancelled',
}

/** Reads a status of either format; `undefined` when the body is none. */
export function readStatus<R>(body: unknown): TaskStatus<R> | undefined {
  if (!isObject(body)) return undefined
  const word = body['status'] ?? body['state']
  if (typeof word !== 'string') return undefined
  const name = word.toLowerCase()
  const state = Object.hasOwn(STATES, name) ? STATES[name] ?? 'processing' : 'processing'
  const { progress, error } = body
  const message = textOf(body['message'])
  return {
    id: idOf(body), state, message, body,
    progress: isObject(progress) && typeof progress['done'] === 'number' ? progress as unknown as TaskProgress : undefined,
    // SPEC 2.5 wants a result with a message; the job format of others may have none.
    result: state === 'completed' ? (body['result'] ?? { message: message ?? '' }) as R : undefined,
    error: state === 'failed' || state === 'cancelled' ? readFailure(error) : undefined,
  }
}

/** The identifier that an acknowledgement or a status carries. */
export function idOf(body: Readonly<Record<string, unknown>>): string | undefined {
  const id = body['taskId'] ?? body['jobId'] ?? body['id']
  return typeof id === 'string' ? id : typeof id === 'number' ? String(id) : undefined
}

function readFailure(error: unknown): TaskStatus['error'] {
  if (typeof error === 'string') return { code: undefined, message: error }
  if (!isObject(error)) return undefined
  return { code: textOf(error['code']), message: textOf(error['message']) ?? 'The task failed.' }
}

/** `value` where it is a text. */
export function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}

/** Whether nothing will change any more. */
export function isEnded({ state }: TaskStatus): boolean {
  return state === 'completed' || state === 'failed' || state === 'cancelled'
}
