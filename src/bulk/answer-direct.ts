import { isPending, type MaybePromise } from '../runtime/maybe-promise.js'
import type { HttpRequest, HttpResponse } from '../http/exchange.js'
import { readFailure } from '../http/failure.js'
import { empty } from '../http/respond.js'
import { answerBulk } from './answer.js'
import type { Intake } from './intake.js'
import { isOver, startRun, type BulkCall, type Plan } from './plan.js'
import { Report, type BulkSummary, type Shown } from './report.js'
import { runBulk } from './run.js'
import { TextSink } from './text-sink.js'

interface Answered {
  readonly response: HttpResponse
  readonly summary: BulkSummary
}

/**
 * Does the work of a request and answers with its report. Throws or rejects when nothing was done.
 */
export function answerDirectly<T>(plan: Plan<T>, request: HttpRequest, intake: Intake, shown: Shown, call: BulkCall): MaybePromise<Answered> {
  const sink = new TextSink()
  const report = new Report(sink, plan.status, shown, plan.maxReportBytes)
  const run = startRun(plan, call)
  const done = (failure?: { readonly error: unknown }): Answered => (
    { response: answerBulk(plan, request, report, sink, shown, failure), summary: report.summary }
  )
  const failed = (error: unknown): Answered => {
    // Nobody waits for the answer.
    if (isOver(call)) return { response: empty(503), summary: report.summary }
    if (report.total === 0) throw error
    if (!readFailure(error).expected) run.tell(error)
    return done({ error })
  }
  try {
    const running = runBulk(run, intake, report)
    if (isPending(running)) return running.then(() => done(), failed)
  } catch (error) {
    return failed(error)
  }
  return done()
}
