import assert from 'node:assert/strict'
import type { MaybePromise } from '../runtime/maybe-promise.js'

/** Resolves after `ms` milliseconds. */
export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

/** Calls `check` every few milliseconds until it returns true. Fails with `what` after `ms`. */
export async function eventually(
  check: () => boolean | Promise<boolean>,
  ms: number,
  what: string,
): Promise<void> {
  const end = performance.now() + ms
  while (!(await check())) {
    assert.ok(performance.now() < end, `${what}, but not within ${ms} ms`)
    await pause(3)
  }
}

/** Returns the outcome of `promise`. Fails with `what` after `ms`. */
export async function inTime<T>(promise: MaybePromise<T>, ms: number, what: string): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(
      () => reject(new assert.AssertionError({ message: `${what}, but not within ${ms} ms` })),
      ms,
    )
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}

/**
 * Returns a function that returns how many notices without a change a watch may have had since this
 * call: two, and two a second. A store that cannot see changes calls all listeners at intervals.
 */
export function hintsWithoutChange(): () => number {
  const began = performance.now()
  return () => 2 + (performance.now() - began) / 500
}

/** Makes `count` calls concurrently. */
export function together<T>(count: number, call: (index: number) => MaybePromise<T>): Promise<T[]> {
  return Promise.all(Array.from({ length: count }, (_, index) => call(index)))
}

/**
 * Checks that the outcome of a call is a rejection with `error`. A call that throws instead fails
 * the test.
 */
export function rejects(outcome: unknown, error: assert.AssertPredicate): Promise<void> {
  return assert.rejects(Promise.resolve(outcome), error)
}

/** A promise that resolves when `open` is called. */
export class Latch {
  readonly opened: Promise<void>
  open!: () => void

  constructor() {
    this.opened = new Promise((resolve) => { this.open = resolve })
  }
}
