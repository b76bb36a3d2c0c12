// Waiting for what a test expects, with a limit, so that a fault cannot hang the run.

/** A promise and its settlers. */
export function deferred<T = void>(): { promise: Promise<T>; resolve: (value: T) => void; reject: (error: unknown) => void } {
  let resolve!: (value: T) => void
  let reject!: (error: unknown) => void
  const promise = new Promise<T>((yes, no) => {
    resolve = yes
    reject = no
  })
  return { promise, resolve, reject }
}

/** Keeps the process alive until the test, or the file, has ended: timers of the library do not. */
export function keepAlive(scope: { after(work: () => void): unknown }): void {
  const timer = setInterval(() => undefined, 60_000)
  scope.after(() => { clearInterval(timer) })
}

/** Resolves after `ms` milliseconds. */
export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => { setTimeout(resolve, ms) })
}

/** The outcome of a promise. Rejects after `ms` milliseconds. */
export async function within<T>(promise: Promise<T>, ms = 5000, what = 'Nothing happened'): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  try {
    return await Promise.race([promise, new Promise<never>((_, reject) => {
      timer = setTimeout(() => { reject(new Error(`${what} within ${ms} ms`)) }, ms)
    })])
  } finally {
    clearTimeout(timer)
  }
}

/** Waits for a condition that no event tells of. Rejects after `ms` milliseconds. */
export async function eventually(condition: () => boolean | Promise<boolean>, ms = 5000, what = condition.toString()): Promise<void> {
  const end = performance.now() + ms
  while (!await condition()) {
    if (performance.now() > end) throw new Error(`Not so within ${ms} ms: ${what}`)
    await pause(5)
  }
}
