import { httpError } from '../http/errors.js'
import type { MaybePromise } from '../runtime/maybe-promise.js'
import { judge } from '../schema/validate.js'
import type { Schema } from '../schema/schema.js'
import { LineReader, type RecordBatch } from './lines.js'
import { batches } from './read-records.js'
import { refusal, type RecordFault, type RecordOutcome, type UploadReport } from './report.js'

/** What `write` is told beside the records. */
export interface WriteContext {
  /** The line of each record, from 1. */
  readonly lines: readonly number[]
  /** Aborts when the client has gone, or the task is stopped. */
  readonly signal: AbortSignal
  /** Who sent the upload, where that is known. */
  readonly owner: string | undefined
  /** The host's own: the context of the request, or what of it travelled with the task. */
  readonly context: unknown
}

/** What is done with the records of an upload. Sizes are in bytes. */
export interface IntakeOptions<T = object> {
  /** Judges each record; what it refuses is a failed line. Default: any object goes. */
  readonly record?: Schema<T>
  /**
   * Takes a batch of records. The next one comes when this is done, so memory stays flat however
   * slow it is. Resolves to nothing when all went well, or to an outcome (or `undefined`) for each
   * record. What it throws ends the upload: answered with that error, and a report of what was
   * taken before.
   */
  readonly write: (records: T[], context: WriteContext) => MaybePromise<readonly (RecordOutcome | undefined)[] | undefined | void>
  /**
   * Records for one `write`, at most. Default 500. Fewer when they are large: a batch is of some 1
   * MiB.
   */
  readonly batchSize?: number
  /** Failed lines that are described; all are counted. Default 100. */
  readonly maxErrors?: number
  /** A longer line is dropped and counted. Default 1 MiB. */
  readonly maxLineBytes?: number
  /** More lines are a 413. Default: no bound but that of bytes. */
  readonly maxLines?: number
}

/** Records are written when they came from this many bytes, however few they are. */
const BATCH_BYTES = 1_048_576

type Caller = Omit<WriteContext, 'lines'>

/** Throws a `TypeError` when an option makes no sense. */
export function checkIntake<T>(name: string, options: IntakeOptions<T>): void {
  const { batchSize = 500, maxErrors = 100, maxLines = Infinity } = options
  if (typeof options.write !== 'function') throw new TypeError(`${name}: write must be a function that takes a batch of records`)
  if (!(Number.isInteger(batchSize) && batchSize >= 1)) throw new TypeError(`${name}: batchSize must be a whole number from 1`)
  if (!(Number.isInteger(maxErrors) && maxErrors >= 0 && maxErrors <= 10_000)) throw new TypeError(`${name}: maxErrors must be a whole number from 0 to 10000`)
  if (!(maxLines >= 1)) throw new TypeError(`${name}: maxLines must be 1 or more`)
  new LineReader(readerOptions(options, false))
}

function readerOptions<T>({ maxLineBytes, maxErrors = 100 }: IntakeOptions<T>, all: boolean) {
  return { maxErrors: all ? Infinity : maxErrors, ...maxLineBytes !== undefined && { maxLineBytes } }
}

/** One upload on its way from bytes to the user's function. */
export class Intake<T> {
  private readonly options: IntakeOptions<T>
  private readonly report: UploadReport
  private readonly caller: Caller
  /** Results of lines, to be sent; `undefined` where nobody asked for them. */
  private readonly results: { line: number }[] | undefined
  private records: T[] = []
  private lines: number[] = []
  private readonly reader: LineReader
  /** How much had been read when records were last written. */
  private writtenAt = 0

  constructor(options: IntakeOptions<T>, report: UploadReport, caller: Caller, streaming: boolean) {
    this.options = options
    this.report = report
    this.caller = caller
    this.results = streaming ? [] : undefined
    this.reader = new LineReader(readerOptions(options, streaming))
  }

  /**
   * Takes all of the source in. Yields results as NDJSON, in the order of lines, where they were
   * asked for.
   */
  async* run(source: AsyncIterable<Uint8Array>): AsyncGenerator<string, void, undefined> {
    const { batchSize = 500, maxLines = Infinity } = this.options
    const { reader } = this
    for await (const batch of batches(source, reader)) {
      this.addBad(batch)
      await this.gather(batch, batchSize)
      if (reader.lineCount > maxLines) throw httpError('body_too_large', { message: `The body has more than ${maxLines} lines.` })
      if (reader.byteCount - this.writtenAt >= BATCH_BYTES || this.results) await this.write()
      if (this.results) yield this.takeResults()
    }
    await this.write()
  }

  private addBad({ errors, failed }: RecordBatch): void {
    this.report.addBad(errors, failed)
    if (this.results) for (const { line, code, message } of errors) this.results.push(failure(line, 400, { code, message }))
  }

  private async gather({ records, lines }: RecordBatch, batchSize: number): Promise<void> {
    const { record: schema } = this.options
    for (let at = 0; at < records.length; at++) {
      const line = lines[at] as number
      if (schema) {
        const judging = judge(schema, records[at])
        const judged = judging instanceof Promise ? await judging : judging
        if ('details' in judged) {
          this.refuse(line, 400, { code: 'record_invalid', message: 'The record is not valid.', details: judged.details }, records[at])
          continue
        }
        this.records.push(judged.value)
      } else this.records.push(records[at] as T)
      this.lines.push(line)
      if (this.records.length >= batchSize) await this.write()
    }
  }

  private async write(): Promise<void> {
    const { records, lines } = this
    this.writtenAt = this.reader.byteCount
    if (records.length === 0) return
    this.records = []
    this.lines = []
    const writing = this.options.write(records, { ...this.caller, lines })
    const outcomes = writing instanceof Promise ? await writing : writing
    if (outcomes !== undefined && outcomes.length !== records.length) {
      throw new TypeError(`write gave ${outcomes.length} outcomes for ${records.length} records; give one for each, or nothing`)
    }
    if (outcomes === undefined && this.results === undefined) {
      this.report.addGood(records.length)
      return
    }
    for (let at = 0; at < records.length; at++) this.settle(lines[at] as number, outcomes?.[at], records[at])
  }

  private settle(line: number, outcome: RecordOutcome | undefined, record: T | undefined): void {
    const { status, id, error } = outcome ?? {}
    if (error) {
      this.refuse(line, status ?? 422, error, record, id)
      return
    }
    this.report.addGood(1)
    this.results?.push({ line, status: status ?? 200, ...id !== undefined && { id } } as { line: number })
  }

  private refuse(line: number, status: number, fault: RecordFault, record: unknown, id?: string | number): void {
    this.report.addRefused(line, fault, record)
    if (!this.results) return
    const { code, message, details } = refusal(line, fault, undefined)
    this.results.push(failure(line, status, { code, message, ...details && { details } }, id))
  }

  private takeResults(): string {
    const results = this.results as { line: number }[]
    const text = results.sort((a, b) => a.line - b.line).map((result) => `${JSON.stringify(result)}\n`).join('')
    results.length = 0
    return text
  }
}

function failure(line: number, status: number, error: RecordFault, id?: string | number): { line: number } {
  return { line, status, ...id !== undefined && { id }, error } as { line: number }
}
