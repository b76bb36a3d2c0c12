/** Settles with `work`, or rejects after `ms`; what comes later is not heard. */
export async function within<T>(ms: number, what: string, work: Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined
  work.catch(() => undefined)
  try {
    return await Promise.race([work, new Promise<never>((_, reject) => {
      timer = setTimeout(() => { reject(new Error(`BullMQ: ${what} took longer than ${String(ms)} ms`)) }, ms)
    })])
  } finally {
    clearTimeout(timer)
  }
}

/** Whether `work` settles within `ms`, however it does. */
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
