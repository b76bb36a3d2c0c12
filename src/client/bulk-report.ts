import type { ErrorDetail } from './errors.js'
import { isObject } from './json-object.js'

/** The outcome of one item of a bulk request. */
export interface BulkItem {
  /** Index of the item in the request, from 0. */
  readonly index: number
  /** HTTP status of the item. */
  readonly status: number
  readonly id?: string | number
  readonly error?: {
    readonly code: string; readonly message: string; readonly details?: readonly ErrorDetail[]
  }
}

/** The outcome of a bulk request. */
export interface BulkReport {
  readonly summary: { readonly total: number; readonly succeeded: number; readonly failed: number }
  /** Items in order of `index`. */
  readonly items: readonly BulkItem[]
}

/** Reads a report. Returns `undefined` if the body is not a report. */
export function readReport(body: unknown): BulkReport | undefined {
  if (!isObject(body) || !isObject(body['summary'])) return undefined
  const { items } = body
  const isList = Array.isArray(items)
    && items.every((item) => isObject(item) && typeof item['index'] === 'number')
  return isList ? body as unknown as BulkReport : undefined
}

/** Merges the reports of several requests into one. */
export class MergedReport {
  private total = 0
  private succeeded = 0
  private failed = 0
  private readonly items: BulkItem[] = []

  /** @param pointer - JSON pointer to the array in the body of each request */
  constructor(private readonly pointer: string) {}

  /** Adds the report of the request whose first item has the index `start`. */
  add(start: number, { summary, items }: BulkReport): void {
    this.total += summary.total
    this.succeeded += summary.succeeded
    this.failed += summary.failed
    for (const item of items) this.items.push(start === 0 ? item : this.moved(item, start))
  }

  /** Returns an item with its index and its pointers counted from the first item of all. */
  private moved(item: BulkItem, start: number): BulkItem {
    const index = item.index + start
    const { error } = item
    if (!error?.details) return { ...item, index }
    const place = `${this.pointer}/${item.index}`
    const details = error.details.map((detail) => (detail.pointer.startsWith(place)
      ? { ...detail, pointer: `${this.pointer}/${index}${detail.pointer.slice(place.length)}` }
      : detail))
    return { ...item, index, error: { ...error, details } }
  }

  get report(): BulkReport {
    const { total, succeeded, failed } = this
    const items = [...this.items].sort((a, b) => a.index - b.index)
    return { summary: { total, succeeded, failed }, items }
  }
}
