/** Position of a task in a list. */
export interface ListPosition {
  readonly createdAt: number
  readonly id: string
}

/** Returns the order of two tasks: by time of creation, then by id. */
export function comparePositions(one: ListPosition, other: ListPosition): number {
  if (one.createdAt !== other.createdAt) return one.createdAt - other.createdAt
  return one.id < other.id ? -1 : one.id > other.id ? 1 : 0
}
