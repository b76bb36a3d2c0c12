import { CALLBACK_JOB } from './callbacks.js'
import { isDuration } from './define.js'
import type { TasksOptions } from './tasks-options.js'

const fault = (what: string) => new TypeError(`createTasks: ${what}`)

/** Throws a `TypeError` for options that make no sense, by themselves or together. */
export function checkOptions(options: TasksOptions): void {
  const { store, queue, definitions, callbacks } = options
  if (queue.durable && !store.shared) {
    throw fault('this queue spans processes but the store does not; use a store that does, such as longhaul/redis')
  }
  const local = definitions.find(({ shared }) => shared === false)
  if (queue.durable && local) {
    throw fault(`this queue spans processes but ${local.name} needs what only one has; give it blobs that all processes see`)
  }
  checkNumbers(options)
  const names = new Set(definitions.map(({ name }) => name))
  if (names.size < definitions.length) throw fault('two definitions have the same name')
  if (names.has(CALLBACK_JOB)) throw fault(`a definition can't be named ${CALLBACK_JOB}`)
  if (callbacks && typeof callbacks.open !== 'function') {
    throw fault('callbacks must be what callbacks() of longhaul/callbacks makes: write callbacks: callbacks({ secrets, … }), not callbacks: { secrets, … }')
  }
}

function checkNumbers(options: TasksOptions): void {
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
