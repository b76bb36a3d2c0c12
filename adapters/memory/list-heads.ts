import { comparePositions as compare, type ListPosition } from '../../src/engine/engine.js'

/** The next task of one list. */
export class Head<T> {
  task: T | undefined

  constructor(private readonly tasks: Generator<T, undefined>) {
    this.advance()
  }

  advance(): void {
    this.task = this.tasks.next().value
  }
}

/** Returns the head whose task comes first. `sign` is -1 for the newest first. */
export function best<T extends ListPosition>(heads: readonly Head<T>[], sign: 1 | -1): Head<T> | undefined {
  let first: Head<T> | undefined
  for (const head of heads) {
    if (!head.task) continue
    if (!first?.task || sign * compare(head.task, first.task) < 0) first = head
  }
  return first
}

type Position = ListPosition | undefined

/** Returns the earlier of two positions. `undefined` is none. */
export function earlier(one: Position, other: Position): Position {
  return one && other ? (compare(one, other) < 0 ? one : other) : one ?? other
}

/** Returns the later of two positions. `undefined` is none. */
export function later(one: Position, other: Position): Position {
  return one && other ? (compare(one, other) > 0 ? one : other) : one ?? other
}
