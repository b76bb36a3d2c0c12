/** Settles with `work`, or calls `onLate` and rejects after `ms`. Later results are ignored. */
export function within<T>(
  ms: number, what: string, work: Promise<T>, onLate: () => void,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      onLate()
      reject(new Error(`BullMQ: ${what} took longer than ${String(ms)} ms`))
    }, ms)
    work.then((value) => {
      clearTimeout(timer)
      resolve(value)
    }, (error: Error) => {
      clearTimeout(timer)
      reject(error)
    })
  })
}

/** Resolves to true if `work` resolves or rejects within `ms`. */
export function settles(work: Promise<unknown>, ms: number): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => { resolve(false) }, ms)
    const done = () => {
      clearTimeout(timer)
      resolve(true)
    }
    work.then(done, done)
  })
}
