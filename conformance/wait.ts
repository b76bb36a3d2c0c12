import assert from 'node:assert/strict'
import type { MaybePromise } from '../src/runtime/maybe-promise.js'
import { clearTimeout, setTimeout } from '../src/runtime/timers.js'

/** Resolves after `ms` milliseconds. */
export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

/** A promise and the functions that settle it. */
export interface Deferred<T> {
  readonly promise: Promise<T>
  readonly resolve: (value: T) => void
  readonly reject: (error: unknown) => void
}

export function deferred<T = void>(): Deferred<T> {
  let resolve!: (value: T) => void
  let reject!: (error: unknown) => void
  const promise = new Promise<T>((yes, no) => {
    resolve = yes
    reject = no
  })
  return { promise, resolve, reject }
}

/** Calls `check` every few milliseconds until it returns true. Fails with `what` after `ms`. */
export async function eventually(
  check: () => MaybePromise<boolean>, ms = 30_000, what = check.toString(),
): Promise<void> {
  const end = performance.now() + ms
  while (!(await check())) {
    assert.ok(performance.now() < end, `${what}, but not within ${ms} ms`)
    await pause(3)
  }
}

/** Returns the outcome of `promise`. Fails with `what` after `ms`. */
export async function within<T>(
  promise: MaybePromise<T>, ms = 30_000, what = 'It settles',
): Promise<T> {
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

/** Waits as long as the options of a suite allow. */
export class Waits {
  constructor(readonly timeoutMs: number, readonly toleranceMs: number) {}

  eventually(check: () => MaybePromise<boolean>, what: string): Promise<void> {
    return eventually(check, this.timeoutMs, what)
  }

  /** Returns the outcome of a call. Fails with `what` after the time limit. */
  soon<T>(outcome: MaybePromise<T>, what: string): Promise<T> {
    return within(outcome, this.timeoutMs, what)
  }

  /** Waits as long as an unexpected event would take. */
  quiet(): Promise<void> {
    return pause(this.toleranceMs)
  }
}

/** Makes `count` calls concurrently. */
export function together<T>(count: number, call: (index: number) => MaybePromise<T>): Promise<T[]> {
  return Promise.all(Array.from({ length: count }, (_, index) => call(index)))
}

/**
 * Checks that each call rejects with `error` within the time limit. A call that throws instead
 * fails the test.
 */
export async function reject(
  waits: Waits, error: assert.AssertPredicate, calls: Readonly<Record<string, () => unknown>>,
): Promise<void> {
  for (const [name, call] of Object.entries(calls)) {
    const rejected = assert.rejects(Promise.resolve(call()), error, name)
    await waits.soon(rejected, `${name} rejects`)
  }
}
