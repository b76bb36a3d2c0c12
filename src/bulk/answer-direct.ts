import { empty } from '../http/respond.js'
import type { HttpRequest, HttpResponse } from '../http/exchange.js'
import { readFailure } from '../http/failure.js'
import { answerBulk } from './answer.js'
import type { Intake } from './intake.js'
import { isOver, startRun, type BulkCall, type Plan } from './plan.js'
import { Report, type BulkSummary, type Shown } from './report.js'
import { runBulk } from './run.js'
import { TextSink } from './text-sink.js'

/** Does the work of a request and answers with its report. Rejects when nothing was done. */
export async function answerDirectly<T>(
  plan: Plan<T>, request: HttpRequest, intake: Intake, shown: Shown, call: BulkCall,
): Promise<{ readonly response: HttpResponse, readonly summary: BulkSummary }> {
  const sink = new TextSink()
  const report = new Report(sink, plan.status, shown, plan.maxReportBytes)
  const run = startRun(plan, call)
  let failure: { readonly error: unknown } | undefined
  try {
    await runBulk(run, intake, report)
  } catch (error) {
    // Nobody waits for the answer.
    if (isOver(call)) return { response: empty(503), summary: report.summary }
    if (report.total === 0) throw error
    if (!readFailure(error).expected) run.tell(error)
    failure = { error }
  }
  return { response: answerBulk(plan, request, report, sink, shown, failure), summary: report.summary }
}
