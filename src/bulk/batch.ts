import type { ItemFault } from './fault.js'

/** What an item is named by in the report. */
export type ItemId = string | number

/** Elements of the array, on their way to be judged. */
export interface RawBatch {
  /** Index of the first. */
  readonly start: number
  readonly items: readonly unknown[]
  /** Nothing in them can be other than it was sent: see `inexact`. */
  readonly plain: boolean
}

/** Items that were judged: those that are good, in their order, and the faults of the others. */
export class Batch<T> {
  /** Index of the first item in the whole array. */
  readonly start: number
  /** How many items there are, good or not. */
  readonly size: number
  /** The good ones. */
  readonly values: T[] = []
  /** Faults by place. */
  readonly faults = new Map<number, ItemFault>()
  /** Ids of those that were written, by place. */
  readonly ids: (ItemId | undefined)[] = []
  /** Places of the good ones, once there is one that is not good before them. */
  private places: number[] | undefined

  constructor(start: number, size: number) {
    this.start = start
    this.size = size
  }

  /** A good one, behind those before. */
  take(place: number, value: T): void {
    const { values } = this
    if (place !== values.length) this.places ??= values.map((_, at) => at)
    this.places?.push(place)
    values.push(value)
  }

  /** Settles a good one, by its number among these. */
  written(number: number, id: ItemId | undefined): void {
    this.ids[this.placeOf(number)] = id
  }

  /** The same where it failed. */
  refused(number: number, fault: ItemFault): void {
    this.faults.set(this.placeOf(number), fault)
  }

  private placeOf(number: number): number {
    return this.places === undefined ? number : this.places[number] as number
  }
}
