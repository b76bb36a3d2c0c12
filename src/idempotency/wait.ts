import type { Entry, Store } from '../stores/store.js'

/** A notice of the store may be lost, so the entry is read again this often, in milliseconds. */
const REREAD_MS = 1000

/** Limits of a wait. */
export interface WaitOptions {
  readonly timeoutMs: number
  readonly signal: AbortSignal | undefined
  /** Returns true if the wait is over. */
  readonly until: (entry: Entry | undefined) => boolean
}

/**
 * Reads an entry until `until` accepts it, the time is over, or the signal aborts. Returns its last
 * state, `undefined` if it does not exist. The timer keeps the process alive, because a request
 * waits for it.
 */
export async function waitForEntry(
  store: Store, key: string, { timeoutMs, signal, until }: WaitOptions,
): Promise<Entry | undefined> {
  const deadline = performance.now() + timeoutMs
  let changed = false
  let wake = (): void => undefined
  const notice = (): void => {
    changed = true
    wake()
  }
  const unwatch = await store.watch(key, notice)
  signal?.addEventListener('abort', notice, { once: true })
  try {
    for (;;) {
      changed = false
      const entry = await store.get(key)
      const left = deadline - performance.now()
      if (until(entry) || left <= 0 || signal?.aborted === true) return entry
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, Math.min(left, REREAD_MS))
        wake = () => {
          clearTimeout(timer)
          resolve()
        }
        if (changed) wake()
      })
    }
  } finally {
    unwatch()
    signal?.removeEventListener('abort', notice)
  }
}
