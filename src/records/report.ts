import { cutText } from '../runtime/text.js'
import type { ReportSummary } from '../wire/report.js'
import type { Batch } from './batch.js'
import {
  isUnknown, NOT_APPLIED, type FailedOutcome, type RecordFault, type RecordOutcome,
} from './outcome.js'

/** Records that a report lists. */
export type ItemSelection = 'all' | 'failed' | 'none'

export interface ReportSink {
  /** Text between two items. */
  readonly separator: ',' | '\n'
  add(items: string): void
  /** Stores what has been added, unless it is short. */
  flush?(): Promise<void>
  /** Discards all items. */
  restart(): void
}

export interface ReportSettings {
  /** Property that says which record an item is: `index` counts from 0, `line` from 1. */
  readonly numbers: 'index' | 'line'
  /** Status of a record that was written. */
  readonly status: number
  /** JSON pointer to the array in the body. Pointers of errors begin at the body. */
  readonly pointer?: string
  readonly selection: ItemSelection
  readonly maxItems?: number
  /** After this many bytes, errors are listed with their code only. */
  readonly maxBytes: number
}

/** Counts of a report. */
export interface ReportCounts {
  readonly succeeded: number
  readonly failed: number
  /** Size of the items of the report, in UTF-16 units. */
  readonly length: number
}

/** Maximum number of details of one record. */
const MAX_DETAILS = 20
/** Maximum length of a string of the application in a report, in UTF-16 units. */
const MAX_TEXT = 300
const WRITTEN: RecordOutcome = {}
/** Number of UTF-16 units that are passed on at once. */
const PIECE_UNITS = 65_536

/** Counts the outcomes of records and writes them as JSON. */
export class Report {
  succeeded = 0
  failed = 0
  /** Number of records whose outcome is unknown. */
  unknown = 0
  /** Number of other records with a status of 500 or above. */
  masked = 0
  /** The first error that is not the consequence of another record's error. */
  firstError: FailedOutcome | undefined
  /** Size of the items that were passed on, with a separator after each. */
  private passed = 0
  /** JSON of the items that are being added. */
  private text = ''
  private readonly base: 0 | 1

  constructor(readonly sink: ReportSink, readonly settings: ReportSettings) {
    this.base = settings.numbers === 'index' ? 1 : 0
  }

  get total(): number {
    return this.succeeded + this.failed
  }

  get summary(): ReportSummary {
    return { total: this.total, succeeded: this.succeeded, failed: this.failed }
  }

  get counts(): ReportCounts {
    return { succeeded: this.succeeded, failed: this.failed, length: this.length }
  }

  /** Continues the report of an earlier run, or of a report with another sink. */
  continueFrom({ succeeded, failed, length }: ReportCounts): void {
    this.succeeded = succeeded
    this.failed = failed
    this.passed = length
  }

  /** Adds all records of a batch. Without outcomes, all valid ones were written. */
  add(batch: Batch<unknown>, outcomes?: readonly (RecordOutcome | undefined)[]): void {
    const { values, numbers, rejected } = batch
    let from = 0
    for (const each of rejected) {
      let to = from
      while (to < values.length && (numbers[to] as number) < each.number) to++
      this.addOutcomes(batch, outcomes, from, to)
      this.addFailed(each.number, each.outcome, each)
      from = to
    }
    this.addOutcomes(batch, outcomes, from, values.length)
    this.failed += batch.undescribed
    this.passText()
  }

  addNotApplied(batch: Batch<unknown>, outcomes: readonly (RecordOutcome | undefined)[] = []): void {
    const all = batch.values.map((_, at) => (outcomes[at]?.error ? outcomes[at] : NOT_APPLIED))
    this.add(batch, all)
  }

  /** Discards the report, and adds `count` records with the same error. */
  restart(count: number, outcome: FailedOutcome): void {
    this.succeeded = this.failed = this.unknown = this.masked = this.passed = 0
    this.firstError = undefined
    this.text = ''
    this.sink.restart()
    for (let number = 1; number <= count; number++) {
      this.addFailed(number, outcome, {})
      if (this.text.length > PIECE_UNITS) this.passText()
    }
    this.passText()
  }

  async flush(): Promise<void> {
    await this.sink.flush?.()
  }

  /** Size of all items, with a separator after each. */
  private get length(): number {
    const { passed, text } = this
    return text === '' ? passed : passed + text.length + 1
  }

  private addOutcomes(
    { values, numbers }: Batch<unknown>, outcomes: readonly (RecordOutcome | undefined)[] | undefined,
    from: number, to: number,
  ): void {
    const { settings: { selection, status, numbers: name }, sink: { separator }, base } = this
    if (outcomes === undefined && selection !== 'all') {
      this.succeeded += to - from
      return
    }
    const first = `{"${name}":`
    const next = separator + first
    const written = `,"status":${status}`
    for (let at = from; at < to; at++) {
      const outcome = outcomes?.[at]
      const number = numbers[at] as number
      if (outcome?.error !== undefined) {
        this.addFailed(number, outcome as FailedOutcome, { record: values[at] })
        continue
      }
      this.succeeded++
      if (selection !== 'all') continue
      const { status: own, id, result } = outcome ?? WRITTEN
      const shown = own === undefined ? written : `,"status":${own}`
      const end = result === undefined ? '}' : `,"result":${JSON.stringify(result)}}`
      this.text += `${this.text === '' ? first : next}${number - base}${shown}${idMember(id)}${end}`
    }
  }

  private addFailed(
    number: number, { status = 422, id, error }: RecordOutcome & { error: RecordFault },
    source: { readonly excerpt?: string, readonly record?: unknown },
  ): void {
    const { selection, maxItems = Infinity, maxBytes, numbers } = this.settings
    const isListed = selection !== 'none' && this.failed < maxItems
    this.failed++
    if (isUnknown({ error })) this.unknown++
    else if (status >= 500) this.masked++
    if (error !== NOT_APPLIED.error) this.firstError ??= { status, error }
    if (!isListed) return
    const code = JSON.stringify(cutText(error.code, MAX_TEXT))
    const more = this.length > maxBytes ? '' : this.describe(number, error, source)
    const item = `{"${numbers}":${number - this.base},"status":${status}${idMember(id)}`
      + `,"error":{"code":${code}${more}}}`
    this.text += this.text === '' ? item : this.sink.separator + item
  }

  private describe(
    number: number, { message, details }: RecordFault,
    { excerpt, record }: { readonly excerpt?: string, readonly record?: unknown },
  ): string {
    const { numbers, pointer } = this.settings
    const base = pointer === undefined ? '' : `${pointer}/${number - this.base}`
    const shown = `,"message":${JSON.stringify(cutText(message, MAX_TEXT))}`
      + (numbers === 'line' ? `,"excerpt":${JSON.stringify(excerpt ?? excerptOf(jsonOf(record)))}` : '')
    if (details === undefined) return shown
    const placed = details.slice(0, MAX_DETAILS).map((detail) => ({
      pointer: base + cutText(detail.pointer, MAX_TEXT), message: cutText(detail.message, MAX_TEXT),
    }))
    return `${shown},"details":${JSON.stringify(placed)}`
  }

  private passText(): void {
    const { text } = this
    if (text === '') return
    this.passed = this.length
    this.text = ''
    this.sink.add(text)
  }
}

const EXCERPT_UNITS = 80

/** Returns the beginning of a line as a copy, because a slice would retain the whole block. */
export function excerptOf(text: string): string {
  const high = text.charCodeAt(EXCERPT_UNITS - 1)
  // Does not split a surrogate pair.
  const end = high >= 0xd800 && high <= 0xdbff ? EXCERPT_UNITS - 1 : EXCERPT_UNITS
  return Buffer.from(text.slice(0, end)).toString()
}

function jsonOf(record: unknown): string {
  try {
    return JSON.stringify(record) ?? ''
  } catch {
    // The schema has returned a value that JSON cannot represent, such as a bigint.
    return ''
  }
}

function idMember(id: string | number | undefined): string {
  if (id === undefined) return ''
  if (typeof id === 'number') return `,"id":${id}`
  return needsNoEscape(id) ? `,"id":"${id}"` : `,"id":${JSON.stringify(id)}`
}

const PLAIN_ID = /^[\w-]+$/

function needsNoEscape(id: string): boolean {
  if (id.length > 16) return PLAIN_ID.test(id)
  for (let at = 0; at < id.length; at++) {
    const code = id.charCodeAt(at)
    if (code < 0x20 || code > 0x7e || code === 0x22 || code === 0x5c) return false
  }
  return true
}
