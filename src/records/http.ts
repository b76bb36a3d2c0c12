import type { Fragment, Properties } from '../openapi/fragment.js'
import type { RecordNumber, ReportItem, ReportSummary } from '../wire/report.js'
import type { Report, ReportSink } from './report.js'

const count: Fragment = { type: 'integer', minimum: 0 }
const text: Fragment = { type: 'string' }

/** JSON is kept as bytes, outside the heap, after this many UTF-16 units. */
const PIECE_UNITS = 65_536

/** Keeps the items of a synchronous request for its response. */
export class TextSink implements ReportSink {
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

  items<I>(): readonly I[] {
    return JSON.parse(`[${Buffer.concat(this.pieces).toString()}${this.text}]`) as I[]
  }

  /** Returns a JSON object with the report. */
  body(
    before: string, { total, succeeded, failed, settings: { selection } }: Report,
  ): string | AsyncIterable<Uint8Array | string> {
    const { text, pieces } = this
    const counts = `${before}${before === '{' ? '' : ','}`
      + `"summary":{"total":${total},"succeeded":${succeeded},"failed":${failed}}`
    if (selection === 'none') return `${counts}}`
    const start = `${counts},"items":[`
    return pieces.length === 0 ? `${start}${text}]}` : piecesOf(start, pieces, `${text}]}`)
  }
}

async function* piecesOf(
  start: string, pieces: readonly Uint8Array[], end: string,
): AsyncGenerator<Uint8Array | string, void, undefined> {
  yield start
  yield* pieces
  yield end
}

export function itemSchema(numbers: RecordNumber): Fragment {
  const properties = {
    status: { type: 'integer', description: 'An HTTP status for this item' },
    id: { type: ['string', 'integer'] },
    error: {
      type: 'object',
      required: ['code'],
      properties: {
        code: text,
        message: text,
        ...numbers === 'line' && { excerpt: text },
        details: {
          type: 'array',
          items: { type: 'object', properties: { pointer: text, message: text } },
        },
      },
    },
  } satisfies Properties<ReportItem>
  const number = numbers === 'index' ? count : { type: 'integer', minimum: 1 }
  return {
    type: 'object',
    required: [numbers, 'status'],
    properties: {
      [numbers]: number, ...properties,
      ...numbers === 'line' && { result: { description: 'JSON of the application' } },
    },
  }
}

export function reportSchema(numbers: RecordNumber, description: string): Fragment {
  return {
    title: numbers === 'index' ? 'Batch report' : 'Upload report',
    type: 'object',
    required: ['summary'],
    properties: {
      ...numbers === 'line' && { message: text, dryRun: { const: true } },
      summary: {
        type: 'object',
        required: ['total', 'succeeded', 'failed'],
        properties: {
          total: count, succeeded: count, failed: count,
        } satisfies Properties<ReportSummary>,
      },
      items: { type: 'array', items: itemSchema(numbers), description },
    },
  }
}
