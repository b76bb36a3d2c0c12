import { httpError } from '../http/errors.js'
import { judge } from '../schema/validate.js'
import { LineReader, type RecordBatch } from './line-reader.js'
import { readBatches } from './read-records.js'
import { readerOptions, type UploadOptions, type WriteContext } from './upload-options.js'
import {
  recordError, type RecordFault, type RecordOutcome, type UploadReport,
} from './upload-report.js'

/** Records are written after this many bytes, however few records there are. */
const BATCH_BYTES = 1_048_576

/** One line of a streamed answer. */
interface LineResult {
  readonly line: number
  readonly status: number
  readonly id?: string | number
  readonly error?: RecordFault
}

interface Failure extends Omit<LineResult, 'line'> {
  readonly error: RecordFault
}

/** Reads the records of one upload, validates them, and passes them to `write` in batches. */
export class Ingest<T> {
  private readonly reader: LineReader
  /** Results that the answer streams; `undefined` if the client asked for a summary only. */
  private readonly results: LineResult[] | undefined
  private records: T[] = []
  private lines: number[] = []
  /** Number of bytes that were read at the time of the last write. */
  private bytesAtWrite = 0

  constructor(
    private readonly options: UploadOptions<T>, private readonly report: UploadReport,
    private readonly context: Omit<WriteContext, 'lines'>, streamResults: boolean,
  ) {
    this.results = streamResults ? [] : undefined
    this.reader = new LineReader(readerOptions(options, streamResults))
  }

  /** Reads the whole source. If results are streamed, yields them as NDJSON, ordered by line. */
  async* run(source: AsyncIterable<Uint8Array>): AsyncGenerator<string, void, undefined> {
    const { maxLines = Infinity } = this.options
    const { reader } = this
    for await (const batch of readBatches(source, reader)) {
      this.addBadLines(batch)
      await this.addRecords(batch)
      if (reader.lineCount > maxLines) {
        throw httpError('body_too_large', { message: `The body has more than ${maxLines} lines.` })
      }
      const isLarge = reader.byteCount - this.bytesAtWrite >= BATCH_BYTES
      if (isLarge || this.results) await this.write()
      if (this.results) yield this.takeResults()
    }
    await this.write()
  }

  private addBadLines({ errors, failed }: RecordBatch): void {
    this.report.addBadLines(errors, failed)
    for (const { line, code, message } of this.results ? errors : []) {
      this.results?.push({ line, status: 400, error: { code, message } })
    }
  }

  private async addRecords({ records, lines }: RecordBatch): Promise<void> {
    const { schema, batchSize = 500 } = this.options
    for (let at = 0; at < records.length; at++) {
      const line = lines[at] as number
      let record = records[at] as T
      if (schema) {
        const judging = judge(schema, record)
        // An await for each record would double the cost of a synchronous schema.
        const judged = judging instanceof Promise ? await judging : judging
        if ('details' in judged) {
          const { details } = judged
          const error = { code: 'record_invalid', message: 'The record is not valid.', details }
          this.addFailure(line, record, { status: 400, error })
          continue
        }
        record = judged.value
      }
      this.records.push(record)
      this.lines.push(line)
      if (this.records.length >= batchSize) await this.write()
    }
  }

  private async write(): Promise<void> {
    const { records, lines } = this
    this.bytesAtWrite = this.reader.byteCount
    if (records.length === 0) return
    this.records = []
    this.lines = []
    const outcomes = await this.options.write(records, { ...this.context, lines })
    if (outcomes !== undefined && outcomes.length !== records.length) {
      throw new TypeError(`write returned ${outcomes.length} outcomes`
        + ` for ${records.length} records; return one for each, or nothing`)
    }
    if (outcomes === undefined && this.results === undefined) {
      this.report.addSucceeded(records.length)
      return
    }
    for (let at = 0; at < records.length; at++) {
      this.addOutcome(lines[at] as number, records[at], outcomes?.[at] ?? {})
    }
  }

  private addOutcome(line: number, record: T | undefined, outcome: RecordOutcome): void {
    const { status, id, error } = outcome
    if (error) {
      this.addFailure(line, record, { status: status ?? 422, error, ...id !== undefined && { id } })
      return
    }
    this.report.addSucceeded(1)
    this.results?.push({ line, status: status ?? 200, ...id !== undefined && { id } })
  }

  private addFailure(line: number, record: unknown, failure: Failure): void {
    const { status, id, error } = failure
    this.report.addFailed(line, error, record)
    if (!this.results) return
    const { code, message, details } = recordError(line, error, undefined)
    this.results.push({
      line, status, ...id !== undefined && { id },
      error: { code, message, ...details && { details } },
    })
  }

  private takeResults(): string {
    const results = this.results as LineResult[]
    results.sort((a, b) => a.line - b.line)
    const text = results.map((result) => `${JSON.stringify(result)}\n`).join('')
    results.length = 0
    return text
  }
}
