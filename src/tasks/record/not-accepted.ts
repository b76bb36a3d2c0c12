import { httpError, type HttpError } from '../../http/errors.js'

/** Returns the error for a caller who has too many unfinished tasks. */
export function tooManyTasks(): HttpError {
  return httpError('too_many_tasks', { headers: { 'retry-after': '5' } })
}

/** Returns the error for a task that the engine has no space for. */
export function queueFull(): HttpError {
  return httpError('queue_full', { headers: { 'retry-after': '1' } })
}

/** Returns the error for requests that are rejected because this process shuts down. */
export function shuttingDown(): HttpError {
  return httpError('shutting_down', { headers: { 'retry-after': '5' } })
}
