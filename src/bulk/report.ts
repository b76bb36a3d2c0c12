import type { ErrorDetail } from '../http/errors.js'
import type { MaybePromise } from '../runtime/maybe-promise.js'
import type { Batch, ItemId } from './batch.js'
import { NOT_APPLIED, UNKNOWN_OUTCOME, type ItemFault } from './fault.js'

const PLAIN_ID = /^[\w-]+$/

/** How many items there were, and what became of them. */
export interface BulkSummary {
  readonly total: number
  readonly succeeded: number
  readonly failed: number
}

/** One item of a report, in the order of the request. */
export interface BulkItem {
  /** Its place in the array, from 0. */
  readonly index: number
  /** An HTTP status. */
  readonly status: number
  readonly id?: string | number
  readonly error?: { readonly code: string; readonly message?: string; readonly details?: readonly ErrorDetail[] }
}

/** The one report shape of all bulk answers. */
export interface BulkReport {
  readonly summary: BulkSummary
  readonly items?: readonly BulkItem[]
}

/** Which items a report shows. */
export type Shown = 'all' | 'failed' | 'none'

/** Where the texts of items go, one after the other. */
export interface ReportSink {
  /** What stands between two items. */
  readonly separator: ',' | '\n'
  /** Texts of one or more items, and the separator between each two of them. */
  add(texts: string): void
  /** Waits until there is room for more. */
  flush?(): MaybePromise<void>
  /** Everything so far was wrong. */
  restart(): void
}

/**
 * Counts what becomes of the items, and writes it down. Texts are joined by hand: that is twice as
 * fast as JSON.stringify.
 */
export class Report {
  succeeded = 0
  failed = 0
  /** Faults whose outcome nobody knows. */
  unknown = 0
  /** Other faults of 500 and above. */
  broken = 0
  /** The first fault that is not for another item's sake. */
  culprit: ItemFault | undefined
  private bytes = 0
  /** The batch that is written down now. */
  private text = ''

  /** @param maxBytes - behind so many bytes, faults are told by their code alone */
  constructor(private readonly sink: ReportSink, private readonly status: number, private readonly shown: Shown, private readonly maxBytes: number) {}

  get total(): number {
    return this.succeeded + this.failed
  }

  get summary(): BulkSummary {
    return { total: this.total, succeeded: this.succeeded, failed: this.failed }
  }

  /** All items of a batch; those without fault count as written. */
  add(batch: Batch<unknown>): void {
    const { start, size, faults, ids } = batch
    if (faults.size === 0) {
      if (this.shown === 'all') this.addWritten(start, size, ids)
      this.succeeded += size
    } else {
      for (let place = 0; place < size; place++) {
        const fault = faults.get(place)
        if (fault === undefined) this.good(start + place, ids[place])
        else this.fault(start + place, fault)
      }
    }
    this.pass()
  }

  /**
   * All items of a batch of which nothing was applied: `instead` stands for those that are not at
   * fault themselves.
   */
  addNotApplied(batch: Batch<unknown>): void {
    for (let place = 0; place < batch.size; place++) this.fault(batch.start + place, batch.faults.get(place) ?? NOT_APPLIED)
    this.pass()
  }

  /** Begins anew, with the same fault for all items so far. */
  restart(upTo: number, fault: ItemFault): void {
    this.succeeded = this.failed = this.unknown = this.broken = this.bytes = 0
    this.culprit = undefined
    this.text = ''
    this.sink.restart()
    for (let index = 0; index < upTo; index++) {
      this.fault(index, fault)
      if (this.text.length > 65_536) this.pass()
    }
    this.pass()
  }

  flush(): MaybePromise<void> {
    return this.sink.flush?.()
  }

  private addWritten(start: number, size: number, ids: readonly (ItemId | undefined)[]): void {
    const { sink: { separator } } = this
    const [tail, textTail] = [`,"status":${this.status}`, `,"status":${this.status},"id":"`]
    // What ends an item goes with the beginning of the next: each text that is joined costs.
    const [behindText, behindOther] = [`"}${separator}{"index":`, `}${separator}{"index":`]
    let text = ''
    let lead = '{"index":'
    for (let place = 0; place < size; place++) {
      const id = ids[place]
      if (typeof id === 'string' && isPlain(id)) {
        text += lead + String(start + place) + textTail + id
        lead = behindText
      } else {
        text += lead + String(start + place) + tail + idText(id)
        lead = behindOther
      }
    }
    this.tell(text + (lead === behindText ? '"}' : '}'))
  }

  private good(index: number, id: ItemId | undefined): void {
    this.succeeded++
    if (this.shown === 'all') this.tell(`{"index":${index},"status":${this.status}${idText(id)}}`)
  }

  private fault(index: number, fault: ItemFault): void {
    this.failed++
    if (fault === UNKNOWN_OUTCOME) this.unknown++
    else if (fault.status >= 500) this.broken++
    if (fault !== NOT_APPLIED) this.culprit ??= fault
    if (this.shown === 'none') return
    const { status, code, message, details } = fault
    const why = this.bytes > this.maxBytes ? '' : `,"message":${JSON.stringify(message)}${details === undefined ? '' : `,"details":${JSON.stringify(details)}`}`
    this.tell(`{"index":${index},"status":${status},"error":{"code":${JSON.stringify(code)}${why}}}`)
  }

  private tell(text: string): void {
    this.text += this.text === '' ? text : this.sink.separator + text
  }

  private pass(): void {
    const { text } = this
    if (text === '') return
    this.text = ''
    this.bytes += text.length
    this.sink.add(text)
  }
}

function idText(id: ItemId | undefined): string {
  return id === undefined ? '' : `,"id":${typeof id === 'number' ? id : JSON.stringify(id)}`
}

/**
 * Most ids need no escapes, and a look costs a tenth of JSON.stringify. A pattern is the quicker
 * one for long ids.
 */
function isPlain(id: string): boolean {
  if (id.length > 16) return PLAIN_ID.test(id)
  for (let at = 0; at < id.length; at++) {
    const code = id.charCodeAt(at)
    if (code < 0x20 || code > 0x7e || code === 0x22 || code === 0x5c) return false
  }
  return true
}
