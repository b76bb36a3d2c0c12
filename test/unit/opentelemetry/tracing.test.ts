// Traces of tasks with the SDK of OpenTelemetry.
import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, test } from 'node:test'
import {
  context, propagation, SpanStatusCode, trace, type TextMapPropagator, type Tracer,
} from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { CompositePropagator, W3CBaggagePropagator, W3CTraceContextPropagator } from '@opentelemetry/core'
import {
  BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor, type ReadableSpan,
} from '@opentelemetry/sdk-trace-base'
import { taskTracing } from '../../../adapters/opentelemetry/index.js'
import { memory } from '../../../adapters/memory/index.js'
import { callbacks, type CallbackRequest } from '../../../src/callbacks/index.js'
import { createTasks, defineTask, httpError, taskEndpoints } from '../../../src/index.js'
import { inject, type InjectedResponse } from '../../../src/testing/index.js'
import { eventually } from '../../kit/wait.js'

const exporter = new InMemorySpanExporter()
const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] })
const tracer: Tracer = provider.getTracer('test')
const manager = new AsyncLocalStorageContextManager()

before(() => {
  context.setGlobalContextManager(manager.enable())
  propagation.setGlobalPropagator(new W3CTraceContextPropagator())
  trace.setGlobalTracerProvider(provider)
})
after(() => {
  context.disable()
  propagation.disable()
  trace.disable()
})
beforeEach(() => { exporter.reset() })

const seen: (string | undefined)[] = []
let fails = 0
const report = defineTask({
  name: 'report', attempts: 2, backoff: { type: 'fixed', delayMs: 1 },
  run: async () => {
    seen.push(trace.getActiveSpan()?.spanContext().traceId)
    await Promise.resolve()
    if (fails-- > 0) throw httpError('service_unavailable', { message: 'The printer is away.' })
    return { message: 'Done.' }
  },
})
const quick = defineTask({
  name: 'quick',
  run: () => ({ message: String(trace.getActiveSpan()?.spanContext().traceId) }),
})
const sent: CallbackRequest[] = []

function open() {
  const sender = {
    check: () => undefined,
    send: async (request: CallbackRequest) => {
      sent.push(request)
      return { status: 200 }
    },
  }
  const tasks = createTasks({
    ...memory(), definitions: [report, quick], tracing: taskTracing(), onError: () => undefined,
    callbacks: callbacks({ sender, secrets: () => ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'] }),
  })
  const endpoints = taskEndpoints(tasks, {
    statusPath: '/tasks/{id}', owner: 'anyone', callback: (body) => body['callbackUrl'],
  })
  return { tasks, report: endpoints.submit(report), quick: endpoints.submit(quick) }
}

const ended = (): readonly ReadableSpan[] => exporter.getFinishedSpans()
const spanOf = (name: string): ReadableSpan => {
  const span = ended().find((each) => each.name === name)
  return span ?? assert.fail(`there is no span ${name} among ${ended().map((each) => each.name).join(', ')}`)
}

/** Calls a handler in the span of a request. */
async function inRequest(
  work: () => Promise<InjectedResponse>,
): Promise<{ readonly response: InjectedResponse; readonly traceId: string }> {
  const span = tracer.startSpan('request')
  const response = await context.with(trace.setSpan(context.active(), span), work)
  span.end()
  return { response, traceId: span.spanContext().traceId }
}

const post = (body: object) => ({
  method: 'POST', path: '/reports', headers: { prefer: 'respond-async' }, body,
})

describe('the traces of tasks', () => {
  test('contain accept, wait, run and callback in the trace of the request', async () => {
    const { tasks, report: handler } = open()
    const { response, traceId } = await inRequest(() => inject(handler, post({ callbackUrl: 'https://hooks.test/a' })))
    assert.equal(response.status, 202)
    await eventually(() => sent.length === 1, 30_000, 'the callback was sent')
    await eventually(() => ended().length >= 5, 30_000, 'all spans ended')
    for (const span of ended()) assert.equal(span.spanContext().traceId, traceId, span.name)
    const { spanId } = spanOf('report accept').spanContext()
    assert.equal(spanOf('report accept').parentSpanContext?.spanId, spanOf('request').spanContext().spanId)
    for (const name of ['report wait', 'report run', 'report callback'])
      assert.equal(spanOf(name).parentSpanContext?.spanId, spanId, name)
    assert.equal(seen.at(-1), traceId, 'run sees it as the active span')
    const { taskId } = await response.json<{ taskId: string }>()
    assert.deepEqual(spanOf('report run').attributes, {
      'longhaul.task.name': 'report',
      'longhaul.task.id': taskId,
      'longhaul.task.attempt': 1,
    })
    assert.equal(spanOf('report callback').attributes['server.address'], 'hooks.test')
    const { traceparent, 'content-type': type } = sent[0]?.headers as Record<string, string>
    assert.equal(traceparent, `00-${traceId}-${spanOf('report callback').spanContext().spanId}-01`)
    assert.equal(type, 'application/json')
    await tasks.close()
  })

  test('have a span for each run, and a failed one has its error', async () => {
    const { tasks, report: handler } = open()
    fails = 1
    await inRequest(() => inject(handler, post({})))
    await eventually(() => ended().filter(({ name }) => name === 'report run').length === 2, 30_000, 'two runs')
    const [first, second] = ended().filter(({ name }) => name === 'report run')
    assert.deepEqual(first?.status, { code: SpanStatusCode.ERROR, message: 'The printer is away.' })
    assert.equal(first?.events[0]?.name, 'exception')
    assert.deepEqual([second?.status.code, second?.attributes['longhaul.task.attempt']], [SpanStatusCode.UNSET, 2])
    assert.equal(ended().filter(({ name }) => name === 'report wait').length, 1, 'it waits for its first run only')
    await tasks.close()
  })

  test('have a synchronous run as a part of its request', async () => {
    const { tasks, quick: handler } = open()
    const { response, traceId } = await inRequest(() => inject(handler, { method: 'POST', path: '/', body: {} }))
    assert.deepEqual([response.status, await response.json()], [200, { message: traceId }])
    assert.equal(spanOf('quick run').parentSpanContext?.spanId, spanOf('request').spanContext().spanId)
    await tasks.close()
  })

  test('mark the accept of an existing task as one that created nothing', async () => {
    const { tasks } = open()
    const { taskId } = await tasks.submit(quick, {}, { id: 'nightly.1' })
    await tasks.submit(quick, {}, { id: 'nightly.1' })
    assert.deepEqual(
      ended()
        .filter(({ name }) => name === 'quick accept')
        .map(({ attributes }) => attributes),
      [true, false].map((created) => ({
        'longhaul.task.name': 'quick',
        'longhaul.task.id': taskId,
        'longhaul.task.created': created,
      })),
    )
    await tasks.close()
  })

  test('begin with accept if no request is active', async () => {
    const { tasks } = open()
    const task = await tasks.submit(quick, {})
    await task.wait({ timeoutMs: 60_000 })
    assert.equal(spanOf('quick accept').parentSpanContext, undefined)
    assert.equal(spanOf('quick run').spanContext().traceId, spanOf('quick accept').spanContext().traceId)
    await tasks.close()
  })

  test('store no invalid headers', async () => {
    const bad: TextMapPropagator = {
      inject: (_context, carrier, setter) => {
        setter.set(carrier, 'x-long', 'a'.repeat(600))
        setter.set(carrier, 'x-split', 'a\r\nset-cookie: b')
        setter.set(carrier, 'Bad Name', 'a')
        setter.set(carrier, 'x-good', 'a')
      },
      extract: (active) => active, fields: () => [],
    }
    propagation.disable()
    propagation.setGlobalPropagator(bad)
    const { tasks, report: handler } = open()
    sent.length = 0
    await inject(handler, post({ callbackUrl: 'https://hooks.test/a' }))
    await eventually(() => sent.length === 1, 30_000, 'the callback was sent')
    const names = Object.keys(sent[0]?.headers ?? {})
    assert.deepEqual(names.filter((name) => name.startsWith('x-') || name.startsWith('B')), ['x-good'])
    await tasks.close()
    propagation.disable()
    propagation.setGlobalPropagator(new W3CTraceContextPropagator())
  })

  test('do not contain a task without a stored trace', async () => {
    propagation.disable()
    const { tasks, report: handler } = open()
    const { traceId } = await inRequest(() => inject(handler, post({})))
    await eventually(() => ended().some(({ name }) => name === 'report run'), 30_000, 'it ran')
    assert.notEqual(spanOf('report run').spanContext().traceId, traceId)
    assert.equal(spanOf('report run').parentSpanContext, undefined)
    await tasks.close()
    propagation.setGlobalPropagator(new W3CTraceContextPropagator())
  })

  test('give receivers of callbacks no baggage', async () => {
    propagation.disable()
    propagation.setGlobalPropagator(new CompositePropagator({
      propagators: [new W3CTraceContextPropagator(), new W3CBaggagePropagator()],
    }))
    const { tasks, report: handler } = open()
    sent.length = 0
    const baggage = propagation.createBaggage({ email: { value: 'ann@example.org' } })
    await context.with(propagation.setBaggage(context.active(), baggage), () => (
      inject(handler, post({ callbackUrl: 'https://hooks.test/a' }))
    ))
    await eventually(() => sent.length === 1, 30_000, 'the callback was sent')
    assert.deepEqual(Object.keys(sent[0]?.headers ?? {}).filter((name) => /trace|baggage/.test(name)), ['traceparent'])
    await tasks.close()
    propagation.disable()
    propagation.setGlobalPropagator(new W3CTraceContextPropagator())
  })

  for (const [what, broken] of Object.entries({
    'that starts no span': { startSpan: () => { throw new Error('broken') } },
    'whose spans do not end': {
      startSpan: (...args: Parameters<Tracer['startSpan']>) => (
        Object.assign(tracer.startSpan(...args), { end: () => { throw new Error('broken') } })
      ),
    },
  })) test(`do not change results if the tracer is one ${what}`, async () => {
    const tasks = createTasks({ ...memory(), definitions: [quick], tracing: taskTracing({ tracer: broken as never }) })
    const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
    const response = await inject(endpoints.submit(quick), { method: 'POST', path: '/', body: {} })
    assert.equal(response.status, 200)
    const task = await tasks.submit(quick, {})
    assert.equal((await task.wait({ timeoutMs: 60_000 }))?.status, 'completed')
    await tasks.close()
  })
})
