import timers from 'node:timers'

/**
 * The timers of Node, captured when the package is loaded: servers keep real time, also under a
 * test's fake timers, and a fake timer would be lost when they are removed.
 */
export const {
  setTimeout, clearTimeout, setInterval, clearInterval, setImmediate, clearImmediate,
} = timers

/** Settles as `work` does. Rejects with the error of `onLate` if that takes more than `ms` ms. */
export function within<T>(work: Promise<T>, ms: number, onLate: () => Error): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => { reject(onLate()) }, ms).unref()
    work.then(resolve, reject).finally(() => { clearTimeout(timer) })
  })
}

/**
 * Resolves to `true` if `work` resolves or rejects within `ms` milliseconds. The process stays alive
 * meanwhile.
 */
export async function settles(work: Promise<unknown>, ms: number): Promise<boolean> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => { resolve(false) }, ms)
  })
  const settled = await Promise.race([work.then(() => true, () => true), late])
  clearTimeout(timer)
  return settled
}
