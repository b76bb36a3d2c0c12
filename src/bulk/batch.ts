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

  private positionOf(number: number): number {
    return this.positions === undefined ? number : this.positions[number] as number
  }
}
