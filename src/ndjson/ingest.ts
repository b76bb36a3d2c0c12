import { httpError } from '../http/errors.js'
import { judge } from '../schema/schema.js'
import type { LineError } from './line-error.js'
import { LineReader, type RecordBatch } from './line-reader.js'
import { readBatches } from './read-records.js'
import { type StoredErrors, type UploadPosition, START, toCursor } from './upload-position.js'
import { readerOptions, type UploadOptions, type WriteContext } from './upload-options.js'
import {
  recordError, type RecordFault, type RecordOutcome, type UploadReport,
} from './upload-report.js'

/** Records are written after this many bytes, however few records there are. */
const BATCH_BYTES = 1_048_576
/** Bad lines that may wait for their report. They take more memory than the bytes of the client. */
const MAX_BAD_LINES = 4096

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

/** The part of a run of a task that lets a later run continue. */
export interface Resumption {
  /** Position at which this run begins. */
  readonly from: UploadPosition
  /** The cursor that the application has stored. */
  readonly previous?: string | undefined
  /** Commits a position. Returns which errors are now stored outside of positions. */
  readonly commit: (position: UploadPosition) => Promise<StoredErrors>
}

/** Members of the context of `write` that are the same for every batch. */
export type IngestContext = Omit<WriteContext, 'lines' | 'cursor' | 'previous'>

/** Reads the records of one upload, validates them, and passes them to `write` in batches. */
export class Ingest<T> {
  private readonly reader: LineReader
  /** Results that the answer streams; `undefined` if the client asked for a summary only. */
  private readonly results: LineResult[] | undefined
  private records: T[] = []
  private lines: number[] = []
  /** Bad lines that were read and are not in the report yet, ordered by line. */
  private badLines: LineError[] = []
  /** Number of bytes that were read at the time of the last write. */
  private bytesAtWrite: number
  /** Place at which the lines begin that were read last. A later run reads them again. */
  private place: Pick<UploadPosition, 'byte' | 'lines'>
  /** The cursor that the application has stored, as far as this run knows. */
  private previous: string | undefined
  /** The errors that are stored outside of positions. */
  private stored: StoredErrors

  /**
   * @param resumption - set for a run of a task. Its positions are committed after each batch
   */
  constructor(
    private readonly options: UploadOptions<T>, private readonly report: UploadReport,
    private readonly context: IngestContext, streamResults: boolean,
    private readonly resumption?: Resumption,
  ) {
    this.results = streamResults ? [] : undefined
    const isOrdered = streamResults || resumption !== undefined
    this.reader = new LineReader(readerOptions(options, isOrdered))
    const { byte, lines, stored, parts } = this.place = resumption?.from ?? START
    this.stored = { stored, parts }
    this.previous = resumption?.previous
    this.bytesAtWrite = byte
    this.reader.continueAt(byte, lines)
  }

  /**
   * Reads the whole source. If results are streamed, yields them as NDJSON, ordered by line. Yields
   * the results of the lines before an error, too.
   */
  async* run(source: AsyncIterable<Uint8Array>): AsyncGenerator<string, void, undefined> {
    try {
      yield* this.read(source)
    } catch (error) {
      const results = this.takeResults()
      if (results !== '') yield results
      throw error
    }
  }

  private async* read(
    source: AsyncIterable<Uint8Array>,
  ): AsyncGenerator<string, void, undefined> {
    const { maxLines = Infinity } = this.options
    const { reader, resumption } = this
    const { done } = resumption?.from ?? START
    const settings = { maxQuietBytes: BATCH_BYTES, maxLines }
    for await (const batch of readBatches(source, reader, settings)) {
      const fresh = done < this.place.lines ? batch : linesAfter(done, batch)
      this.addBadLines(fresh)
      await this.addRecords(fresh)
      if (batch.isOver) {
        await this.write(Math.max(reader.lineCount, done))
        throw httpError('body_too_large', { message: `The body has more than ${maxLines} lines.` })
      }
      const isLarge = reader.byteCount - this.bytesAtWrite >= BATCH_BYTES
        || this.badLines.length >= MAX_BAD_LINES
      // This run may divide the bytes otherwise than the run before, and end here before `done`.
      if (isLarge || this.results) await this.write(Math.max(reader.lineCount, done))
      const results = this.takeResults()
      if (results !== '') yield results
      this.place = { byte: reader.lineStart, lines: reader.lineCount }
    }
    await this.write(Math.max(reader.lineCount, done))
  }

  private addBadLines({ errors, failed }: RecordBatch): void {
    if (this.resumption) {
      this.badLines.push(...errors)
      return
    }
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
      if (this.records.length >= batchSize) await this.write(line)
    }
  }

  /**
   * Writes the records that were gathered, and commits the position after them.
   *
   * @param done - number of the last line whose outcome is then known
   */
  private async write(done: number): Promise<void> {
    const { records, lines, reader, resumption } = this
    const isLarge = reader.byteCount - this.bytesAtWrite >= BATCH_BYTES
    if (records.length > 0 || isLarge) this.bytesAtWrite = reader.byteCount
    if (records.length > 0) {
      this.records = []
      this.lines = []
      const { previous } = this
      const cursor: WriteContext['cursor'] = (outcomes) => {
        const report = this.report.copy()
        this.addBadLinesUntil(done, report)
        this.addOutcomes(records, lines, outcomes, report)
        return this.previous = toCursor(this.position(done, report))
      }
      // One piece of the body may contain many batches.
      this.context.signal.throwIfAborted()
      const place = { ...this.context, lines, cursor, previous }
      const outcomes = await this.options.write(records, place) ?? undefined
      this.addOutcomes(records, lines, outcomes, this.report)
    }
    if (!resumption) return
    this.addBadLinesUntil(done, this.report)
    this.badLines = this.badLines.filter(({ line }) => line > done)
    if (records.length === 0 && !isLarge) return
    this.stored = await resumption.commit(this.position(done, this.report))
  }

  private addBadLinesUntil(done: number, report: UploadReport): void {
    const bad = this.badLines.filter(({ line }) => line <= done)
    report.addBadLines(bad, bad.length)
  }

  private position(done: number, { summary, errors }: UploadReport): UploadPosition {
    const { place, stored } = this
    const { succeeded, failed } = summary
    return {
      byte: place.byte, lines: place.lines, done, succeeded, failed,
      ...stored, errors: errors.slice(stored.stored),
    }
  }

  private addOutcomes(
    records: readonly T[], lines: readonly number[],
    outcomes: readonly (RecordOutcome | undefined)[] | undefined, report: UploadReport,
  ): void {
    if (outcomes !== undefined && outcomes.length !== records.length) {
      throw new TypeError(`write returned ${outcomes.length} outcomes`
        + ` for ${records.length} records; return one for each, or nothing`)
    }
    if (outcomes === undefined && this.results === undefined) {
      report.addSucceeded(records.length)
      return
    }
    for (let at = 0; at < records.length; at++) {
      this.addOutcome(lines[at] as number, records[at], outcomes?.[at] ?? {}, report)
    }
  }

  private addOutcome(
    line: number, record: T | undefined, outcome: RecordOutcome, report: UploadReport,
  ): void {
    const { status, id, error } = outcome
    if (error) {
      const failure = { status: status ?? 422, error, ...id !== undefined && { id } }
      this.addFailure(line, record, failure, report)
      return
    }
    report.addSucceeded(1)
    if (report !== this.report) return
    this.results?.push({ line, status: status ?? 200, ...id !== undefined && { id } })
  }

  private addFailure(
    line: number, record: unknown, failure: Failure, report = this.report,
  ): void {
    const { status, id, error } = failure
    report.addFailed(line, error, record)
    if (!this.results || report !== this.report) return
    const { code, message, details } = recordError(line, error, undefined)
    this.results.push({
      line, status, ...id !== undefined && { id },
      error: { code, message, ...details && { details } },
    })
  }

  private takeResults(): string {
    const { results = [] } = this
    results.sort((a, b) => a.line - b.line)
    const text = results.map((result) => `${JSON.stringify(result)}\n`).join('')
    results.length = 0
    return text
  }
}

/** Returns the lines of a batch after the last line that an earlier run has committed. */
function linesAfter(done: number, { records, lines, errors, failed }: RecordBatch): RecordBatch {
  const first = lines.findIndex((line) => line > done)
  const later = errors.filter(({ line }) => line > done)
  return {
    records: first < 0 ? [] : records.slice(first),
    lines: first < 0 ? [] : lines.slice(first),
    errors: later,
    failed: failed - (errors.length - later.length),
  }
}
