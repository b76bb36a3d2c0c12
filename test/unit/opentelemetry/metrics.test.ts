// Metrics of tasks with the SDK of OpenTelemetry.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  AggregationTemporality, InMemoryMetricExporter, MeterProvider, PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics'
import { taskMetrics } from '../../../adapters/opentelemetry/index.js'
import { memory } from '../../../adapters/memory/index.js'
import { createTasks, defineTask, httpError } from '../../../src/index.js'

function meterOf() {
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE)
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 })
  const provider = new MeterProvider({ readers: [reader] })
  /** Returns the points of each metric: its attributes, and its value or the count of a histogram. */
  const collect = async () => {
    await reader.forceFlush()
    const all = exporter.getMetrics().at(-1)?.scopeMetrics.flatMap(({ metrics }) => metrics) ?? []
    exporter.reset()
    return Object.fromEntries(
      all.map(({ descriptor: { name }, dataPoints }) => [
        name,
        dataPoints.map(({ attributes, value }) => ({
          ...attributes,
          value: typeof value === 'number' ? value : value.count,
        })),
      ]),
    )
  }
  return { meter: provider.getMeter('test'), collect, end: () => provider.shutdown() }
}

test('metrics measure tasks, waits, durations and pools, by names and outcomes', async () => {
  const { meter, collect, end } = meterOf()
  const good = defineTask({ name: 'good', run: () => ({ message: 'Done.' }) })
  const bad = defineTask({ name: 'bad', run: () => { throw httpError('unprocessable') } })
  const later = defineTask({ name: 'later', run: () => ({ message: 'Done.' }) })
  const tasks = createTasks({ ...memory(), definitions: [good, bad, later] })
  const stop = taskMetrics({ tasks, meter })
  for (const definition of [good, good, bad]) {
    const task = await tasks.submit(definition, {}, { owner: 'ann' })
    await task.wait({ timeoutMs: 60_000 })
  }
  await tasks.submit(later, {}, { delayMs: 60_000 })
  const measured = await collect()
  assert.deepEqual(measured['longhaul.task.events'], [
    { task: 'good', event: 'accepted', value: 2 }, { task: 'good', event: 'started', value: 2 },
    { task: 'good', event: 'completed', value: 2 },
    { task: 'bad', event: 'accepted', value: 1 }, { task: 'bad', event: 'started', value: 1 },
    { task: 'bad', event: 'failed', code: 'unprocessable', value: 1 }, { task: 'later', event: 'accepted', value: 1 },
  ])
  assert.deepEqual(measured['longhaul.task.wait'], [{ task: 'good', value: 2 }, { task: 'bad', value: 1 }])
  assert.deepEqual(measured['longhaul.task.duration'], [
    { task: 'good', state: 'completed', value: 2 }, { task: 'bad', state: 'failed', value: 1 },
  ])
  assert.deepEqual(measured['longhaul.pool.tasks'], [
    { pool: 'default', state: 'running', value: 0 }, { pool: 'default', state: 'waiting', value: 0 },
    { pool: 'default', state: 'delayed', value: 1 },
  ])
  assert.doesNotMatch(JSON.stringify(measured), /ann/, 'no owner')
  stop()
  await tasks.submit(good, {})
  assert.deepEqual((await collect())['longhaul.task.events'], measured['longhaul.task.events'], 'nothing after its end')
  await tasks.close({ drainMs: 0 })
  await end()
})

test('metrics reject invalid options', () => {
  assert.throws(() => taskMetrics({ tasks: {} as never }), /taskMetrics: tasks must be what createTasks returned/)
})
