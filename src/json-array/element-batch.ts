/** Some elements of an array that is read as it arrives, in their order. */
export interface ElementBatch {
  /** Index of the first of them in the array, from 0. */
  readonly start: number
  /** One or more, as `JSON.parse` gives them. */
  readonly items: unknown[]
  /**
   * No number of theirs can have been rounded, and no text can hold half of a character: what
   * `inexact` looks for is certainly not in them. It costs less to know this of the text than to
   * look at each value.
   */
  readonly plain: boolean
}

/** What is read, and how much of it. */
export interface ElementOptions {
  /**
   * The member that holds the array, when it is one of an object. The others are read, checked and
   * dropped, unless it has to be `alone`. Left out: the body is the array.
   */
  readonly member?: string
  /** Whether another member than `member` ends the reading with `invalid_input`. Default: false. */
  readonly alone?: boolean
  /**
   * A larger element ends the reading, and is never held whole. In bytes, with the white space
   * around it; from 1 to 256 MiB, default 1 MiB.
   */
  readonly maxElementBytes?: number
  /**
   * So many elements are handed over; one more ends the reading with `body_too_large`. Default: no
   * bound.
   */
  readonly maxItems?: number
  /** So many bytes are parsed in one go. From 1 to 16 MiB, default 64 KiB. */
  readonly batchBytes?: number
}

/**
 * Where the reading of an array ended before its end. It is the member `position` of the error that
 * is thrown.
 */
export interface ElementPosition {
  /** How many elements came before: the index of the one that is at fault, if it is one. */
  readonly item: number
  /** From 1. */
  readonly line: number
  /** From 1, in UTF-16 units. */
  readonly column: number
  /** From 0, in UTF-16 units. */
  readonly offset: number
}
