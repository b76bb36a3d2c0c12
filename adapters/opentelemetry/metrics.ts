import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { BatchObservableCallback, Meter } from '@opentelemetry/api'
import type { CallbackEvent } from '../../src/callbacks/callbacks.js'
import { hasMethod, readOptions, value, type OptionTable } from '../../src/runtime/options.js'
import type { StoreEvent } from '../../src/stores/calls.js'
import type { TaskEvent } from '../../src/tasks/record/diagnostics.js'
import type { Tasks } from '../../src/tasks/tasks.js'
import { diag, metrics } from './api.js'

/** Options of `taskMetrics`. */
export interface TaskMetricsOptions {
  /** Tasks whose pools are counted for `longhaul.pool.*`. Default: none. */
  readonly tasks?: Pick<Tasks, 'pools'>
  /** Default: the meter `longhaul` of the global provider. */
  readonly meter?: Meter
}

const OPTIONS = {
  tasks: value('what createTasks returned', hasMethod('pools')),
  meter: value(),
} satisfies OptionTable<TaskMetricsOptions>

/** Boundaries of durations in seconds. Those of OpenTelemetry are made for milliseconds. */
const BOUNDARIES = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1800, 3600]

/**
 * Records what this process does as metrics of OpenTelemetry. Attributes are names and outcomes,
 * never ids or owners, because their number has no bound.
 *
 * | Metric | Content |
 * |---|---|
 * | `longhaul.task.events` | steps of tasks, by name, event (that of `TaskEvent`, or the final status) and error code |
 * | `longhaul.task.wait` | seconds from the acceptance to the first run, by name |
 * | `longhaul.task.duration` | seconds from the first run to the end, by name and status |
 * | `longhaul.callback.duration` | seconds of attempts at callbacks, by outcome |
 * | `longhaul.store.duration` | seconds of calls of Redis or PostgreSQL, by operation and outcome |
 * | `longhaul.pool.tasks` | tasks of all processes by pool and state: running, waiting, delayed. Each process reports the same number |
 * | `longhaul.pool.oldest_wait` | seconds for which the oldest task of a pool has waited |
 * @example
 * const stop = taskMetrics({ tasks })
 * @returns a function that ends the records
 * @throws {TypeError} An option is unknown or not valid.
 */
export function taskMetrics(options: TaskMetricsOptions = {}): () => void {
  const { tasks, meter = metrics.getMeter('longhaul') } = readOptions('taskMetrics', options, OPTIONS)
  const seconds = { unit: 's', advice: { explicitBucketBoundaries: BOUNDARIES } }
  const events = meter.createCounter('longhaul.task.events')
  const waits = meter.createHistogram('longhaul.task.wait', seconds)
  const durations = meter.createHistogram('longhaul.task.duration', seconds)
  const callbacks = meter.createHistogram('longhaul.callback.duration', seconds)
  const stores = meter.createHistogram('longhaul.store.duration', seconds)

  const onTask = (message: unknown): void => {
    const { event, name, status, attempt, code, createdAt, startedAt, finishedAt } = message as TaskEvent
    const isFinished = event === 'finished'
    events.add(1, { task: name, event: isFinished ? status : event, ...code !== undefined && { code } })
    if (startedAt === undefined) return
    if (event === 'started' && attempt === 1) waits.record((startedAt - createdAt) / 1000, { task: name })
    if (isFinished && finishedAt !== undefined) {
      durations.record((finishedAt - startedAt) / 1000, { task: name, state: status })
    }
  }
  const onCallback = (message: unknown): void => {
    const { outcome, fault, ms } = message as CallbackEvent
    callbacks.record(ms / 1000, { outcome, ...fault !== undefined && { fault } })
  }
  const onStore = (message: unknown): void => {
    const { verb, outcome, ms } = message as StoreEvent
    stores.record(ms / 1000, { operation: verb, outcome })
  }
  const channels = [
    ['longhaul:task', safely(onTask)], ['longhaul:callback', safely(onCallback)],
    ['longhaul:store', safely(onStore)],
  ] as const
  for (const [name, listener] of channels) subscribe(name, listener)
  const endPools = tasks && observePools(meter, tasks)
  return () => {
    for (const [name, listener] of channels) unsubscribe(name, listener)
    endPools?.()
  }
}

/** A listener of a channel that throws would end the process. */
function safely(listener: (message: unknown) => void): (message: unknown) => void {
  return (message) => {
    try {
      listener(message)
    } catch (error) {
      diag.error('longhaul: an event could not be recorded', error)
    }
  }
}

function observePools(meter: Meter, tasks: Pick<Tasks, 'pools'>): () => void {
  const counts = meter.createObservableGauge('longhaul.pool.tasks')
  const oldest = meter.createObservableGauge('longhaul.pool.oldest_wait', { unit: 's' })
  const observe: BatchObservableCallback = async (result) => {
    // An engine that is away has no counts. `longhaul.store.duration` shows that.
    for (const { pool, running, waiting, delayed, oldestWaitingMs = 0 } of await tasks.pools().catch(() => [])) {
      for (const [state, count] of Object.entries({ running, waiting, delayed })) {
        result.observe(counts, count, { pool, state })
      }
      result.observe(oldest, oldestWaitingMs / 1000, { pool })
    }
  }
  meter.addBatchObservableCallback(observe, [counts, oldest])
  return () => { meter.removeBatchObservableCallback(observe, [counts, oldest]) }
}
