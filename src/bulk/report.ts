import type { ErrorDetail } from '../http/errors.js'
import type { MaybePromise } from '../runtime/maybe-promise.js'
import type { Batch, ItemId } from './batch.js'
import type { ReportCounts } from './bulk-position.js'
import { NOT_APPLIED, UNKNOWN_OUTCOME, type ItemError } from './item-error.js'
import type { ItemSelection } from './item-selection.js'
import type { BulkSettings } from './settings.js'

/** Numbers of items that succeeded and failed. */
export interface BulkSummary {
  readonly total: number
  readonly succeeded: number
  readonly failed: number
}

/** One item of a report. */
export interface BulkItem {
  /** Index in the array of the request, from 0. */
  readonly index: number
  /** An HTTP status. */
  readonly status: number
  readonly id?: string | number
  readonly error?: {
    readonly code: string
    readonly message?: string
    readonly details?: readonly ErrorDetail[]
  }
}

/** Report of a bulk request. */
export interface BulkReport {
  readonly summary: BulkSummary
  /** In the order of the request. */
  readonly items?: readonly BulkItem[]
}

/** Destination of the items of a report. */
export interface ReportSink {
  /** Text between two items. */
  readonly separator: ',' | '\n'
  /** Adds the JSON of one or more items, with the separator between each two of them. */
  add(items: string): void
  /** Waits until the sink can take more. */
  flush?(): MaybePromise<void>
  /** Discards all items. */
  restart(): void
}

/** Settings of a report. */
export type ReportSettings = Pick<BulkSettings<never>, 'status' | 'maxReportBytes' | 'items'>

/**
 * Counts the outcomes of items and writes them as JSON. The JSON is concatenated by hand, which
 * takes half the time of `JSON.stringify`.
 */
export class Report {
  succeeded = 0
  failed = 0
  /** Number of items whose outcome is unknown. */
  unknown = 0
  /** Number of other items with a status of 500 or above. */
  masked = 0
  /** The first error that is not the consequence of another item's error. */
  firstError: ItemError | undefined
  /** Size of the items that were passed on, with a separator after each. */
  private passed = 0
  /** JSON of the batch that is being added. */
  private text = ''

  private readonly status: number
  /** After so many bytes, errors are written without message and details. */
  private readonly maxBytes: number
  /** JSON pointer to the array in the body. Pointers of errors are counted from the body. */
  private readonly pointer: string

  constructor(
    private readonly sink: ReportSink,
    { status, maxReportBytes, items }: ReportSettings,
    private readonly selection: ItemSelection,
  ) {
    this.status = status
    this.maxBytes = maxReportBytes
    this.pointer = items
  }

  get total(): number {
    return this.succeeded + this.failed
  }

  get summary(): BulkSummary {
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

  /** Adds all items of a batch. Items without an error count as written. */
  add({ start, size, errors, ids }: Batch<unknown>): void {
    if (errors.size === 0) {
      if (this.selection === 'all') this.addAllWritten(start, size, ids)
      this.succeeded += size
    } else {
      for (let position = 0; position < size; position++) {
        const error = errors.get(position)
        if (error === undefined) this.addWritten(start + position, ids[position])
        else this.addFailed(start + position, error)
      }
    }
    this.passText()
  }

  /** Adds all items of a batch of which nothing was written. */
  addNotApplied({ start, size, errors }: Batch<unknown>): void {
    for (let position = 0; position < size; position++) {
      this.addFailed(start + position, errors.get(position) ?? NOT_APPLIED)
    }
    this.passText()
  }

  /** Discards the report, and adds `count` items with the same error. */
  restart(count: number, error: ItemError): void {
    this.succeeded = this.failed = this.unknown = this.masked = this.passed = 0
    this.firstError = undefined
    this.text = ''
    this.sink.restart()
    for (let index = 0; index < count; index++) {
      this.addFailed(index, error)
      if (this.text.length > 65_536) this.passText()
    }
    this.passText()
  }

  flush(): MaybePromise<void> {
    return this.sink.flush?.()
  }

  /** Size of all items, with a separator after each. */
  private get length(): number {
    const { passed, text } = this
    return text === '' ? passed : passed + text.length + 1
  }

  private addAllWritten(start: number, size: number, ids: readonly (ItemId | undefined)[]): void {
    const { sink: { separator } } = this
    const status = `,"status":${this.status}`
    const statusAndId = `${status},"id":"`
    // The end of an item is added together with the beginning of the next, because each
    // concatenation costs.
    const [afterTextId, afterOther] = [`"}${separator}{"index":`, `}${separator}{"index":`]
    let text = ''
    let lead = '{"index":'
    for (let position = 0; position < size; position++) {
      const id = ids[position]
      if (typeof id === 'string' && needsNoEscape(id)) {
        text += lead + String(start + position) + statusAndId + id
        lead = afterTextId
      } else {
        text += lead + String(start + position) + status + idMember(id)
        lead = afterOther
      }
    }
    this.addText(text + (lead === afterTextId ? '"}' : '}'))
  }

  private addWritten(index: number, id: ItemId | undefined): void {
    this.succeeded++
    if (this.selection !== 'all') return
    this.addText(`{"index":${index},"status":${this.status}${idMember(id)}}`)
  }

  private addFailed(index: number, error: ItemError): void {
    this.failed++
    if (error === UNKNOWN_OUTCOME) this.unknown++
    else if (error.status >= 500) this.masked++
    if (error !== NOT_APPLIED) this.firstError ??= error
    if (this.selection === 'none') return
    const { status, code } = error
    const isLong = this.length > this.maxBytes
    const more = isLong ? '' : messageMembers(error, `${this.pointer}/${index}`)
    const shown = `{"code":${JSON.stringify(code)}${more}}`
    this.addText(`{"index":${index},"status":${status},"error":${shown}}`)
  }

  private addText(text: string): void {
    this.text += this.text === '' ? text : this.sink.separator + text
  }

  private passText(): void {
    const { text } = this
    if (text === '') return
    this.passed = this.length
    this.text = ''
    this.sink.add(text)
  }
}

/** Returns the message and the details of an item's error. @param item - pointer to the item */
function messageMembers({ message, details }: ItemError, item: string): string {
  const shown = `,"message":${JSON.stringify(message)}`
  if (details === undefined) return shown
  const placed = details.map((detail) => ({ ...detail, pointer: item + detail.pointer }))
  return `${shown},"details":${JSON.stringify(placed)}`
}

function idMember(id: ItemId | undefined): string {
  return id === undefined ? '' : `,"id":${typeof id === 'number' ? id : JSON.stringify(id)}`
}

const PLAIN_ID = /^[\w-]+$/

/**
 * Returns true if JSON needs no escape for an id. That is so for most ids, and the check costs a
 * tenth of `JSON.stringify`. The pattern is faster for long ids, the loop for short ones.
 */
function needsNoEscape(id: string): boolean {
  if (id.length > 16) return PLAIN_ID.test(id)
  for (let at = 0; at < id.length; at++) {
    const code = id.charCodeAt(at)
    if (code < 0x20 || code > 0x7e || code === 0x22 || code === 0x5c) return false
  }
  return true
}
