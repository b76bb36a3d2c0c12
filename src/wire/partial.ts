/** A partial result. */
export interface PartialResult<T = unknown> {
  /** Identifies it for `after`. */
  readonly id: string
  readonly value: T
}

/** A line of the resource of partial results: a result, a gap before the next one, or the end. */
export type PartialLine<T = unknown> =
  | PartialResult<T>
  | { readonly id: string, readonly gap: object }
  | { readonly id: string, readonly end: { readonly status: string } }
