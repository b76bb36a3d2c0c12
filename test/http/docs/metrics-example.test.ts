import assert from 'node:assert/strict'
import { test } from 'node:test'
import { channel } from 'node:diagnostics_channel'
import type { CallbackEvent } from 'longhaul/callbacks'
import type { StoreEvent } from 'longhaul/stores'
import type { TaskEvent } from 'longhaul'
import { observe } from '../../../examples/metrics/observe.js'
import { Registry } from '../../../examples/metrics/registry.js'
import { ServerProcess, stopAfterwards } from '../kit/process.js'
import { Client } from '../kit/reference.js'
import { program } from '../../servers/program.js'

stopAfterwards()

test('the metrics example counts what its endpoints do', async () => {
  const client = new Client(
    await new ServerProcess(process.execPath, program('examples/metrics/main.ts'), { PORT: '0' }).url(),
  )
  const begun = await client.ask('POST', '/reports', { body: { year: 2025 }, headers: { prefer: 'respond-async' } })
  await client.ask('DELETE', begun.headers.get('location') ?? '')
  const { text } = await client.ask('GET', '/metrics')
  for (const line of [
    'longhaul_tasks_total{task="report",event="accepted"} 1',
    'longhaul_tasks_total{task="report",event="started"} 1',
    'longhaul_tasks_total{task="report",event="cancelled"} 1',
    'longhaul_task_seconds_count{task="report",state="cancelled"} 1',
    'longhaul_task_wait_seconds_bucket{task="report",le="60"} 1',
  ])
    assert.ok(text.includes(`${line}\n`), `${line} is missing in\n${text}`)
})

test('callbacks and store calls have their own series', () => {
  const registry = new Registry()
  observe(registry)
  channel('longhaul:callback').publish({
    outcome: 'retry', taskId: 'a', owner: 'b', tenant: undefined, host: 'c', attempt: 1, status: undefined, fault: 'timeout', ms: 3000,
  } satisfies CallbackEvent)
  channel('longhaul:store').publish({ verb: 'get', outcome: 'ok', ms: 20 } satisfies StoreEvent)
  const task: TaskEvent = {
    event: 'finished',
    taskId: 'a',
    owner: 'b',
    tenant: undefined,
    name: 'c',
    status: 'failed',
    code: 'task_timeout',
    attempt: 1,
    createdAt: 0,
    startedAt: 1000,
    finishedAt: 3000,
  }
  channel('longhaul:task').publish(task)
  const text = registry.text()
  for (const line of [
    'longhaul_callback_seconds_bucket{outcome="retry",fault="timeout",le="2.5"} 0',
    'longhaul_callback_seconds_bucket{outcome="retry",fault="timeout",le="10"} 1',
    'longhaul_store_seconds_bucket{verb="get",outcome="ok",le="0.025"} 1',
    'longhaul_store_seconds_sum{verb="get",outcome="ok"} 0.02',
    'longhaul_tasks_total{task="c",event="failed",code="task_timeout"} 1',
    'longhaul_task_seconds_sum{task="c",state="failed"} 2',
  ])
    assert.ok(text.includes(`${line}\n`), `${line} is missing in\n${text}`)
})
