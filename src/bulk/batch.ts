import type { ArrayPosition } from '../json-array/array-position.js'
import type { ItemError } from './item-error.js'

/** Id of a record, as the report shows it. */
export type ItemId = string | number

/** Elements of the array, parsed and not validated. */
export interface ParsedBatch {
  /** Index of the first element. */
  readonly start: number
  readonly items: readonly unknown[]
  /** All values are as they were sent; see `inexactValues`. */
  readonly exact: boolean
  /** Place in the body at which the first element begins. Absent if the body is read as a whole. */
  readonly place?: ArrayPosition
  /** Size of the text of the elements, in bytes. Absent if the body is read as a whole. */
  readonly bytes?: number
}

/**
 * Items that were validated, and the outcomes of their writes. The `position` of an item is its
 * place among all items of the batch; its `number` is its place among the valid ones.
 */
export class Batch<T> {
  /** Values of the valid items, in their order. */
  readonly values: T[] = []
  /** Errors of items, by position. */
  readonly errors = new Map<number, ItemError>()
  /** Ids of written items, by position. */
  readonly ids: (ItemId | undefined)[] = []
  /** Positions of the valid items; `undefined` while they equal the numbers. */
  private positions: number[] | undefined
  /** The error that has stopped the writes, and the number of the first item that it concerns. */
  stopped: { readonly number: number, readonly error: unknown } | undefined

  /**
   * @param start - index of the first item in the whole array
   * @param size - number of items, valid or not
   */
  constructor(readonly start: number, readonly size: number) {}

  /** Adds a valid item. Positions must increase. */
  addValid(position: number, value: T): void {
    const { values } = this
    if (position !== values.length) this.positions ??= values.map((_, number) => number)
    this.positions?.push(position)
    values.push(value)
  }

  /** Marks a valid item as written. */
  setWritten(number: number, id: ItemId | undefined): void {
    this.ids[this.positionOf(number)] = id
  }

  /** Marks a valid item as failed. */
  setFailed(number: number, error: ItemError): void {
    this.errors.set(this.positionOf(number), error)
  }

  /**
   * Divides the batch into parts with up to `count` valid items each. Invalid items belong to the
   * part of the next valid item; those at the end to the last part.
   *
   * @param from - position of the first item; earlier items are left out
   */
  * divide(count: number, from = 0): Generator<Batch<T>, void, undefined> {
    const { values, size } = this
    let number = 0
    while (number < values.length && this.positionOf(number) < from) number++
    for (let first = from; first < size;) {
      const next = number + count
      const end = next < values.length ? this.positionOf(next - 1) + 1 : size
      yield this.part(first, end, number, next)
      first = end
      number = next
    }
  }

  /** Returns a copy, to which outcomes can be added without a change of this batch. */
  copy(): Batch<T> {
    return this.part(0, this.size, 0, this.values.length)
  }

  /** Returns the items before the one that has stopped the writes, with their outcomes. */
  untilStop(): Batch<T> {
    const { stopped, values, size, ids } = this
    if (stopped === undefined) return this
    const end = stopped.number < values.length ? this.positionOf(stopped.number) : size
    const part = this.part(0, end, 0, stopped.number)
    part.ids.push(...ids.slice(0, end))
    return part
  }

  /** Returns the items from one position to another, with their valid ones by number. */
  private part(from: number, to: number, number: number, endNumber: number): Batch<T> {
    const part = new Batch<T>(this.start + from, to - from)
    for (let at = number; at < Math.min(endNumber, this.values.length); at++) {
      part.addValid(this.positionOf(at) - from, this.values[at] as T)
    }
    for (let at = from; at < to; at++) {
      const error = this.errors.get(at)
      if (error !== undefined) part.errors.set(at - from, error)
    }
    return part
  }

  private positionOf(number: number): number {
    return this.positions === undefined ? number : this.positions[number] as number
  }
}
