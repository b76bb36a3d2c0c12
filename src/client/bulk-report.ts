import type { ErrorDetail } from './errors.js'
import { isObject } from './json-object.js'

/** What became of one item of a bulk request. */
export interface BulkItem {
  /** Its place among the items that were given, from 0. */
  readonly index: number
  /** An HTTP status. */
  readonly status: number
  readonly id?: string | number
  readonly error?: { readonly code: string; readonly message: string; readonly details?: readonly ErrorDetail[] }
}

/** What became of a bulk request. */
export interface BulkReport {
  readonly summary: { readonly total: number; readonly succeeded: number; readonly failed: number }
  /** By index. */
  readonly items: readonly BulkItem[]
}

/** Reads a report; `undefined` when the body is none. */
export function readReport(body: unknown): BulkReport | undefined {
  if (!isObject(body) || !isObject(body['summary']) || !Array.isArray(body['items'])) return undefined
  const report = body as unknown as BulkReport
  return report.items.every((item) => isObject(item) && typeof item.index === 'number') ? report : undefined
}

/** Joins the reports of pieces of one request into one. */
export class MergedReport {
  private total = 0
  private succeeded = 0
  private failed = 0
  private readonly items: BulkItem[] = []

  /** Adds the report of the piece that began at `start`. */
  add(start: number, { summary, items }: BulkReport): void {
    this.total += summary.total
    this.succeeded += summary.succeeded
    this.failed += summary.failed
    for (const item of items) this.items.push({ ...item, index: item.index + start })
  }

  get report(): BulkReport {
    const { total, succeeded, failed, items } = this
    return { summary: { total, succeeded, failed }, items: [...items].sort((a, b) => a.index - b.index) }
  }
}
