/** A page of a list. */
export interface CursorPage<Item> {
  readonly items: readonly Item[]
  /** The place of the next page. Absent on the last one. */
  readonly next?: string
}
