import type { ErrorDetail } from '../http/errors.js'
import { isJsonObject, isTooDeep } from '../http/body/json.js'
import type { MaybePromise } from '../runtime/maybe-promise.js'
import { childPointer } from '../schema/pointer.js'
import { judge, type Validation } from '../schema/schema.js'
import { Batch, type ParsedBatch } from './batch.js'
import type { BulkRun } from './bulk-run.js'
import { itemError, NOT_WRITTEN, type ItemError } from './item-error.js'

/** Index of the first item with each key, for bodies that are read as a whole. */
export type SeenKeys = Map<string, number>

type Verdict<T> = Validation<T> | ItemError

/**
 * Validates each item on its own (SPEC 4.3 rule 1). An asynchronous schema validates up to
 * `concurrency` items at the same time. An error of the schema fails its item.
 */
export async function validateBatch<T>(
  run: BulkRun<T>, { start, items, exact }: ParsedBatch, seen: SeenKeys | undefined,
): Promise<Batch<T>> {
  const { concurrency } = run.settings
  const batch = new Batch<T>(start, items.length)
  for (let from = 0; from < items.length; from += concurrency) {
    const group: MaybePromise<Verdict<T>>[] = []
    const end = Math.min(from + concurrency, items.length)
    for (let at = from; at < end; at++) group.push(validateItem(run, items[at], exact))
    for (let at = from; at < end; at++) {
      const verdict = group[at - from] as MaybePromise<Verdict<T>>
      // An await for each item would double the cost of a synchronous schema.
      addVerdict(run, batch, at, verdict instanceof Promise ? await verdict : verdict, seen)
    }
  }
  return batch
}

function validateItem<T>(
  { settings, reportError }: BulkRun<T>, item: unknown, exact: boolean,
): MaybePromise<Verdict<T>> {
  if (isTooDeep(item)) return { details: [{ pointer: '', message: 'is nested too deeply' }] }
  if (!exact) {
    const details = inexactValues(item)
    if (details.length > 0) {
      return itemError('inexact_value', 'A value cannot be kept as it was sent.', details)
    }
  }
  const { schema } = settings
  if (schema === undefined) {
    if (isJsonObject(item)) return { value: item as T }
    return { details: [{ pointer: '', message: 'must be object' }] }
  }
  const failed = (error: unknown): ItemError => {
    reportError(error)
    return NOT_WRITTEN
  }
  try {
    const verdict = judge(schema, item)
    return verdict instanceof Promise ? verdict.catch(failed) : verdict
  } catch (error) {
    return failed(error)
  }
}

function addVerdict<T>(
  { settings }: BulkRun<T>, batch: Batch<T>, position: number, verdict: Verdict<T>,
  seen: SeenKeys | undefined,
): void {
  if ('code' in verdict) {
    batch.errors.set(position, verdict)
    return
  }
  if ('details' in verdict) {
    const error = itemError('invalid_input', 'The item is not valid.', verdict.details)
    batch.errors.set(position, error)
    return
  }
  const { value } = verdict
  const key = seen && settings.key?.(value)
  if (seen !== undefined && key !== undefined) {
    const first = seen.get(key)
    if (first !== undefined) {
      const message = `Item ${first} of this batch has the same key, so this item was not written.`
      batch.errors.set(position, itemError('duplicate_item', message))
      return
    }
    seen.set(key, batch.start + position)
  }
  batch.addValid(position, value)
}

const HALF_PAIR = /[\ud800-\udfff]/u
/** Maximum number of details of one item. */
const MAX_DETAILS = 5

/**
 * Returns the values of an item that differ from what was sent, or would differ once written:
 * integers beyond 2^53 - 1, which may have been rounded, numbers too large for a double (1e309),
 * and texts with half of a surrogate pair. Returns the first five. Does not recurse.
 */
export function inexactValues(item: unknown): ErrorDetail[] {
  const details: ErrorDetail[] = []
  const open: [pointer: string, value: unknown][] = [['', item]]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (details.length >= MAX_DETAILS) break
    const [pointer, value] = next
    const message = inexactReason(value)
    if (message !== undefined) details.push({ pointer, message })
    if (typeof value !== 'object' || value === null) continue
    for (const [key, child] of Object.entries(value).reverse()) {
      if (HALF_PAIR.test(key)) {
        details.push({ pointer, message: 'has a name with half of a surrogate pair' })
      } else open.push([childPointer(pointer, key), child])
    }
  }
  return details
}

function inexactReason(value: unknown): string | undefined {
  if (typeof value === 'string') {
    return HALF_PAIR.test(value) ? 'has half of a surrogate pair' : undefined
  }
  if (typeof value !== 'number') return undefined
  if (!Number.isFinite(value)) return 'is too large for a number'
  if (!Number.isInteger(value) || Number.isSafeInteger(value)) return undefined
  return 'is an integer beyond 2^53 - 1; send it as text'
}
