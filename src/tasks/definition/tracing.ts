import type { MaybePromise } from '../../runtime/maybe-promise.js'

/** Headers of a trace, such as `traceparent`, with lower-case names. */
export type TraceHeaders = Readonly<Record<string, string>>

/** One step of a task, for its span. Times are milliseconds since 1970. */
export interface TracedStep {
  /** Name of the definition. */
  readonly name: string
  /** Absent for the run of a synchronous request, which has no task. */
  readonly taskId?: string | undefined
  /** Number of the run, or of the attempt at the callback, from 1. */
  readonly attempt: number
  /** Trace in which the task was accepted. */
  readonly trace?: TraceHeaders | undefined
  /** Time at which the task was accepted, or may start. */
  readonly dueAt?: number | undefined
  /** Host of the receiver of a callback. */
  readonly host?: string | undefined
}

/** The part of the outcome of an accept that its span shows. */
export interface Accepted {
  readonly task: { readonly id: string }
  /** `false`: a task with this id or this key existed already. */
  readonly created: boolean
}

/** Wraps the steps of tasks in spans. Made by `taskTracing()` of `longhaul/opentelemetry`. */
export interface Tracing {
  /** @internal */
  readonly accept: <R extends Accepted>(
    name: string, work: (trace: TraceHeaders | undefined) => MaybePromise<R>,
  ) => MaybePromise<R>
  /** @internal */
  readonly run: <R>(step: TracedStep, work: () => MaybePromise<R>, errorOf: (outcome: R) => unknown) => MaybePromise<R>
  /** @internal */
  readonly callback: <R>(
    step: TracedStep, work: (trace: TraceHeaders) => Promise<R>, errorOf: (outcome: R) => unknown,
  ) => Promise<R>
}
