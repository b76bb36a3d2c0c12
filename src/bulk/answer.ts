import { httpError, type HttpError } from '../http/errors.js'
import type { HttpRequest, HttpResponse } from '../http/exchange.js'
import { addVary } from '../http/fields/fields.js'
import { errorResponse, jsonText } from '../http/respond.js'
import type { Plan } from './plan.js'
import type { Report, Shown } from './report.js'
import type { TextSink } from './text-sink.js'

/** Why a bulk request as a whole is an error, or `undefined` when some of it went well. */
function refusalOf<T>(plan: Plan<T>, report: Report): HttpError | undefined {
  const { succeeded, unknown, broken, culprit } = report
  if (succeeded > 0) return undefined
  if (unknown > 0) return httpError('write_outcome_unknown', { message: 'Something went wrong, and it is not known which of the items were written.' })
  if (broken > 0) return httpError('internal_error')
  if (!plan.transaction) return httpError('batch_failed')
  const message = 'Nothing was changed: the batch is applied as a whole or not at all, and not all of its items can be.'
  return httpError(culprit?.status === 409 ? 'conflict' : 'batch_failed', { message })
}

/**
 * The answer to a bulk request: what became of its items, and what ended it too early, if anything
 * did.
 */
export function answerBulk<T>(
  plan: Plan<T>, request: HttpRequest, report: Report, sink: TextSink, shown: Shown, failure?: { readonly error: unknown },
): HttpResponse {
  const { succeeded, failed, total } = report
  const summary = `"summary":{"total":${total},"succeeded":${succeeded},"failed":${failed}}`
  const [before, after] = shown === 'none' ? [summary, '}'] : [`${summary},"items":[`, ']}']
  const error = failure ? failure.error : refusalOf(plan, report)
  let response: HttpResponse
  if (error === undefined) {
    response = jsonText(failed === 0 ? plan.status : plan.mixedStatus, '')
    response.body = sink.body(`{${before}`, after)
  } else {
    response = errorResponse(error, request)
    // The error body goes on with the report.
    response.body = sink.body(`${(response.body as string).slice(0, -1)},${before}`, after)
  }
  addVary(response.headers, 'Prefer')
  if (shown === 'none') response.headers['preference-applied'] = 'return=minimal'
  return response
}
