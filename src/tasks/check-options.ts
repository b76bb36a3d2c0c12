import { isDuration } from './define.js'
import type { TasksOptions } from './tasks-options.js'

/** Throws a `TypeError` for numbers that make no sense. */
export function checkNumbers(options: TasksOptions): void {
  const fault = (what: string) => new TypeError(`createTasks: ${what}`)
  const { concurrency = 1, progressIntervalMs = 0 } = options
  if (!Number.isInteger(concurrency) || concurrency < 1) throw fault('concurrency must be a whole number from 1')
  for (const name of ['retentionMs', 'pendingMs', 'leaseMs'] as const) {
    if (!isDuration(options[name] ?? 1000, 1000)) throw fault(`${name} must be from 1000 to 100 years`)
  }
  if (!isDuration(progressIntervalMs, 0)) throw fault('progressIntervalMs must be 0 or more')
  for (const name of ['maxInputBytes', 'maxResultBytes', 'maxWaiters'] as const) {
    const value = options[name] ?? 0
    if (!(value >= 0)) throw fault(`${name} must be 0 or more, not ${String(value)}`)
  }
}
