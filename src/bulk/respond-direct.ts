import { httpError, type HttpError } from '../http/errors.js'
import type { HttpRequest, HttpResponse } from '../http/exchange.js'
import { readFailure } from '../http/failure.js'
import { addVary, empty, errorResponse, jsonText } from '../http/respond.js'
import { isAborted, startRun, type BulkCall } from './bulk-run.js'
import type { ItemSelection } from './item-selection.js'
import { Report, type BulkSummary, type ReportSink } from './report.js'
import type { DirectBody } from './read-direct.js'
import { runBulk } from './run.js'
import type { BulkSettings } from './settings.js'

interface DirectAnswer {
  readonly response: HttpResponse
  readonly summary: BulkSummary
}

/** Does the work of a request and answers with its report. */
export async function respondDirect<T>(
  settings: BulkSettings<T>, request: HttpRequest, { body, items }: DirectBody,
  selection: ItemSelection, call: BulkCall,
): Promise<DirectAnswer> {
  const sink = new TextSink()
  const report = new Report(sink, settings, selection)
  const run = startRun(settings, call)
  let failure: { readonly error: unknown } | undefined
  try {
    await runBulk(run, body, items, report)
    failure = failureOf(settings, report)
  } catch (error) {
    // The client has disconnected: nobody reads the answer.
    if (isAborted(call)) return { response: empty(503), summary: report.summary }
    if (!readFailure(error).expected) run.reportError(error)
    failure = { error }
  }
  const { succeeded, failed, total, summary } = report
  const counts = `"summary":{"total":${total},"succeeded":${succeeded},"failed":${failed}}`
  const [start, end] = selection === 'none' ? [counts, '}'] : [`${counts},"items":[`, ']}']
  let response: HttpResponse
  if (failure === undefined) {
    response = jsonText(failed === 0 ? settings.status : settings.mixedStatus, '')
    response.body = sink.body(`{${start}`, end)
  } else {
    response = errorResponse(failure.error, request)
    // The report continues the JSON of the error.
    response.body = sink.body(`${(response.body as string).slice(0, -1)},${start}`, end)
  }
  addVary(response.headers, 'Prefer')
  if (selection === 'none') response.headers['preference-applied'] = 'return=minimal'
  return { response, summary }
}

/** Returns the error of a request of which no item succeeded. */
function failureOf<T>(
  { transaction }: BulkSettings<T>, { succeeded, unknown, masked, firstError }: Report,
): { readonly error: HttpError } | undefined {
  if (succeeded > 0) return undefined
  if (unknown > 0) {
    const message = 'Something went wrong, and it is not known which of the items were written.'
    return { error: httpError('write_outcome_unknown', { message }) }
  }
  if (masked > 0) return { error: httpError('internal_error') }
  if (!transaction) return { error: httpError('batch_failed') }
  const message = 'Nothing was changed: the batch is applied as a whole or not at all, '
    + 'and not all of its items can be.'
  const code = firstError?.status === 409 ? 'conflict' : 'batch_failed'
  return { error: httpError(code, { message }) }
}

const PIECE_UNITS = 65_536

/** Buffers the items of a direct answer. A long report is kept as bytes, outside the heap. */
class TextSink implements ReportSink {
  readonly separator = ','
  private text = ''
  private pieces: Uint8Array[] = []

  add(items: string): void {
    const isFirst = this.text === '' && this.pieces.length === 0
    this.text += isFirst ? items : `,${items}`
    if (this.text.length < PIECE_UNITS) return
    this.pieces.push(Buffer.from(this.text))
    this.text = ''
  }

  restart(): void {
    this.text = ''
    this.pieces = []
  }

  /** Returns the body of the answer: the items between two texts. */
  body(start: string, end: string): string | AsyncIterable<Uint8Array | string> {
    const { text, pieces } = this
    return pieces.length === 0 ? start + text + end : piecesOf(start, pieces, text + end)
  }
}

async function* piecesOf(
  start: string, pieces: readonly Uint8Array[], end: string,
): AsyncGenerator<Uint8Array | string, void, undefined> {
  yield start
  yield* pieces
  yield end
}
