import { subscribe } from 'node:diagnostics_channel'
import type { CallbackEvent } from 'longhaul/callbacks'
import type { StoreEvent } from 'longhaul/stores'
import type { TaskEvent } from 'longhaul'
import { Counter, Histogram, type Registry } from './registry.js'

const SECONDS = [0.005, 0.025, 0.1, 0.5, 2.5, 10, 60, 600]

/**
 * Makes metrics from the diagnostics channels of longhaul. Each process counts its own work: acceptances in web processes, runs in workers.
 * Labels are names and outcomes, never ids, owners or hosts, because their number has no bound.
 */
export function observe(registry: Registry): void {
  const tasks = registry.add(new Counter('longhaul_tasks_total', 'Steps of tasks.'))
  const runs = registry.add(new Histogram('longhaul_task_seconds', 'From the first run to the end.', SECONDS))
  const waits = registry.add(new Histogram('longhaul_task_wait_seconds', 'From acceptance to the first run.', SECONDS))
  subscribe('longhaul:task', (message) => {
    const { event, name, status, attempt, code, createdAt, startedAt, finishedAt } = message as TaskEvent
    tasks.inc({ task: name, event: event === 'finished' ? status : event, ...(code === undefined ? {} : { code }) })
    if (startedAt === undefined) return
    if (event === 'started' && attempt === 1) waits.observe({ task: name }, (startedAt - createdAt) / 1000)
    if (finishedAt !== undefined) runs.observe({ task: name, state: status }, (finishedAt - startedAt) / 1000)
  })

  const callbacks = registry.add(new Histogram('longhaul_callback_seconds', 'Attempts of callbacks.', SECONDS))
  subscribe('longhaul:callback', (message) => {
    const { outcome, fault = 'none', ms } = message as CallbackEvent
    callbacks.observe({ outcome, fault }, ms / 1000)
  })

  const calls = registry.add(new Histogram('longhaul_store_seconds', 'Calls of Redis or PostgreSQL.', SECONDS))
  subscribe('longhaul:store', (message) => {
    const { verb, outcome, ms } = message as StoreEvent
    calls.observe({ verb, outcome }, ms / 1000)
  })
}
