import type { MaybePromise } from '../runtime/maybe-promise.js'
import { isTooDeep, isJsonObject } from '../http/body/json-value.js'
import { judge, type Validation } from '../schema/validate.js'
import { Batch, type RawBatch } from './batch.js'
import { FAILED, INEXACT_MESSAGE, itemFault, type ItemFault } from './fault.js'
import { inexact } from './inexact.js'
import type { Plan, Run } from './plan.js'

/** The first item that has a key, for bodies that are seen as a whole. */
export type SeenKeys = Map<string, number>

type Verdict<T> = Validation<T> | ItemFault

/**
 * Judges each item on its own (SPEC 4.3 rule 1). A schema that answers at once is not waited for;
 * one that does not judges up to `concurrency` items at a time. What a schema throws fails its
 * item.
 */
export function judgeBatch<T>(run: Run<T>, raw: RawBatch, seen: SeenKeys | undefined): MaybePromise<Batch<T>> {
  const { plan } = run
  const { start, items } = raw
  const batch = new Batch<T>(start, items.length)
  for (let place = 0; place < items.length; place++) {
    const verdict = judgeItem(run, items[place], raw.plain)
    if ('value' in verdict) take(plan, batch, place, verdict.value, seen)
    else if (verdict instanceof Promise) return judgeRest(run, raw, batch, verdict, place, seen)
    else refuse(batch, place, verdict)
  }
  return batch
}

async function judgeRest<T>(
  run: Run<T>, { items, plain }: RawBatch, batch: Batch<T>, first: Promise<Verdict<T>>, from: number, seen: SeenKeys | undefined,
): Promise<Batch<T>> {
  const { plan } = run
  settle(plan, batch, from, await first, seen)
  for (let place = from + 1; place < items.length; place += plan.concurrency) {
    const verdicts = await Promise.all(items.slice(place, place + plan.concurrency).map(async (item) => judgeItem(run, item, plain)))
    verdicts.forEach((verdict, at) => { settle(plan, batch, place + at, verdict, seen) })
  }
  return batch
}

function judgeItem<T>(run: Run<T>, item: unknown, plain: boolean): MaybePromise<Verdict<T>> {
  if (isTooDeep(item)) return { details: [{ pointer: '', message: 'is nested too deeply' }] }
  if (!plain) {
    const details = inexact(item)
    if (details.length > 0) return itemFault('inexact_value', INEXACT_MESSAGE, details)
  }
  const { plan: { schema }, tell } = run
  if (schema === undefined) return isJsonObject(item) ? { value: item as T } : { details: [{ pointer: '', message: 'must be object' }] }
  try {
    const verdict = judge(schema, item)
    return verdict instanceof Promise ? verdict.catch((error: unknown) => failed(tell, error)) : verdict
  } catch (error) {
    return failed(tell, error)
  }
}

function failed(tell: Run<unknown>['tell'], error: unknown): ItemFault {
  tell(error)
  return FAILED
}

function settle<T>(plan: Plan<T>, batch: Batch<T>, place: number, verdict: Verdict<T>, seen: SeenKeys | undefined): void {
  if ('value' in verdict) take(plan, batch, place, verdict.value, seen)
  else refuse(batch, place, verdict)
}

/** A good item, unless it is about the same as one before it. */
function take<T>(plan: Plan<T>, batch: Batch<T>, place: number, value: T, seen: SeenKeys | undefined): void {
  if (seen !== undefined) {
    const key = plan.key?.(value)
    const first = key === undefined ? undefined : seen.get(key)
    if (first !== undefined) {
      batch.faults.set(place, itemFault('duplicate_item', `Item ${first} of this batch is about the same; this one was left out.`))
      return
    }
    if (key !== undefined) seen.set(key, batch.start + place)
  }
  batch.take(place, value)
}

function refuse(batch: Batch<unknown>, place: number, verdict: ItemFault | Exclude<Validation<unknown>, { readonly value: unknown }>): void {
  batch.faults.set(place, 'code' in verdict ? verdict : itemFault('invalid_input', 'The item is not valid.', verdict.details))
}
