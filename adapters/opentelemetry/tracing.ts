import type { Attributes, Context, Span, Tracer } from '@opentelemetry/api'
import { isHeaderValue } from '../../src/http/headers/reader.js'
import { isPending, type MaybePromise } from '../../src/runtime/maybe-promise.js'
import { readOptions, value, type OptionTable } from '../../src/runtime/options.js'
import type { TracedStep, TraceHeaders, Tracing } from '../../src/tasks/definition/tracing.js'
import {
  context, diag, propagation, ROOT_CONTEXT, SpanKind, SpanStatusCode, trace as api,
} from './api.js'

/** Options of `taskTracing`. */
export interface TaskTracingOptions {
  /** Default: the tracer `longhaul` of the global provider. */
  readonly tracer?: Tracer
}

const OPTIONS = { tracer: value() } satisfies OptionTable<TaskTracingOptions>
const TRACE_HEADER = /^[a-z0-9-]{1,64}$/
/** Limits of the headers of a trace, because they are stored with each task. */
const MAX_HEADER_LENGTH = 512
const MAX_HEADERS = 8

/**
 * Traces tasks, for the option `tracing` of `createTasks`. The spans of a task are in the trace of
 * the request that submitted it: `report accept`, `report wait` until its first run, `report run`
 * for each run, in any process, and `report callback` for each attempt, whose receiver gets
 * `traceparent`. A synchronous run has a span, too. The attribute `longhaul.task.created` of an accept is
 * `false` if the task existed already: for a repeated Idempotency-Key, and for the firing of a schedule in
 * each process but one. An accept in a transaction ends before the commit, so a rollback does not show. Requires `@opentelemetry/api`. Headers of the
 * propagator that are invalid or longer than 512 characters are dropped.
 * @example
 * const tasks = createTasks({ ...memory(), definitions: [report], tracing: taskTracing() })
 * @throws {TypeError} An option is unknown.
 */
export function taskTracing(options: TaskTracingOptions = {}): Tracing {
  const { tracer = api.getTracer('longhaul') } = readOptions('taskTracing', options, OPTIONS)
  const none = (): undefined => undefined
  return {
    accept: (name, work) => inSpan(
      () => tracer.startSpan(`${name} accept`, { kind: SpanKind.PRODUCER, attributes: { 'longhaul.task.name': name } }),
      () => {
        const headers = activeHeaders()
        return work(Object.keys(headers).length === 0 ? undefined : headers)
      },
      {
        errorOf: none,
        attributesFor: ({ task, created }) => (
          { 'longhaul.task.id': task.id, 'longhaul.task.created': created }
        ),
      },
    ),
    run: (step, work, errorOf) => {
      const parent = contextOf(step)
      const attributes = attributesOf(step)
      const { name, dueAt } = step
      if (dueAt !== undefined) {
        guarded(() => {
          tracer.startSpan(`${name} wait`, { startTime: dueAt, attributes }, parent).end(Math.max(Date.now(), dueAt))
        })
      }
      const start = (): Span => tracer.startSpan(`${name} run`, { kind: SpanKind.CONSUMER, attributes }, parent)
      return inSpan(start, work, { errorOf, parent })
    },
    callback: async (step, work, errorOf) => {
      const parent = contextOf(step)
      const attributes = { ...attributesOf(step), 'server.address': step.host }
      const start = (): Span => tracer.startSpan(`${step.name} callback`, { kind: SpanKind.CLIENT, attributes }, parent)
      return inSpan(start, () => work(callbackHeaders()), { errorOf, parent })
    },
  }
}

interface SpanOptions<R> {
  /** Returns the error of an outcome; `undefined` for a success. */
  readonly errorOf: (outcome: R) => unknown
  /** Default: the active context. */
  readonly parent?: Context
  readonly attributesFor?: (outcome: R) => Attributes
}

function inSpan<R>(
  start: () => Span, work: () => MaybePromise<R>,
  { errorOf, parent = context.active(), attributesFor }: SpanOptions<R>,
): MaybePromise<R> {
  const span = guarded(start)
  if (span === undefined) return work()
  const end = (error: unknown): void => {
    if (error !== undefined) {
      guarded(() => {
        const message = error instanceof Error ? error.message : 'Not an Error was thrown'
        span.setStatus({ code: SpanStatusCode.ERROR, message })
        if (error instanceof Error) span.recordException(error)
      })
    }
    guarded(() => { span.end() })
  }
  const conclude = (outcome: R): R => {
    if (attributesFor) guarded(() => { span.setAttributes(attributesFor(outcome)) })
    end(errorOf(outcome))
    return outcome
  }
  const fail = (error: unknown): never => {
    end(error ?? new Error('It failed'))
    throw error
  }
  let outcome: MaybePromise<R>
  try {
    outcome = context.with(api.setSpan(parent, span), work)
  } catch (error) {
    return fail(error)
  }
  return isPending(outcome) ? outcome.then(conclude, fail) : conclude(outcome)
}

function guarded<T>(call: () => T): T | undefined {
  try {
    return call()
  } catch (error) {
    diag.error('longhaul: a span could not be made', error)
    return undefined
  }
}

/** The receiver of a callback is another party, so it gets no baggage. */
function callbackHeaders(): TraceHeaders {
  const { baggage: _, ...headers } = activeHeaders()
  return headers
}

function activeHeaders(): TraceHeaders {
  const headers: Record<string, string> = {}
  guarded(() => { propagation.inject(context.active(), headers) })
  return Object.fromEntries(Object.entries(headers).filter(([name, text]) => (
    TRACE_HEADER.test(name) && typeof text === 'string' && text.length <= MAX_HEADER_LENGTH && isHeaderValue(text)
  )).slice(0, MAX_HEADERS))
}

/**
 * Without a stored trace a task begins its own: the worker may be in the context of another
 * request.
 */
function contextOf({ taskId, trace }: TracedStep): Context {
  if (trace !== undefined) return guarded(() => propagation.extract(ROOT_CONTEXT, trace)) ?? ROOT_CONTEXT
  return taskId === undefined ? context.active() : ROOT_CONTEXT
}

function attributesOf({ name, taskId, attempt }: TracedStep): Attributes {
  return { 'longhaul.task.name': name, 'longhaul.task.id': taskId, 'longhaul.task.attempt': attempt }
}
