import type { MaybePromise } from '../runtime/maybe-promise.js'
import { setGlobalTimeout } from '../runtime/timers.js'
import type { Unsubscribe } from './store.js'

/** Interval between two reads of a watched value, in milliseconds: a notice may be lost. */
const REREAD_MS = 2000

/** A value that others change, and notices of its changes. */
export interface Watchable<T> {
  read(): MaybePromise<T>
  /** Calls `listener` after a change. */
  watch(listener: () => void): MaybePromise<Unsubscribe>
}

/** Outcome of one read. */
export type Reading<T> = { readonly value: T } | { readonly error: unknown }

/** Reads a value after each notice and every two seconds, one read at a time. */
export class Watch<T> {
  /** Resolves once notices arrive. */
  readonly opened: Promise<void>
  private reading: Promise<void> | undefined
  private unwatch: Unsubscribe | undefined
  private isClosed = false
  private readonly refreshSoon = (): void => { void this.refresh() }
  private readonly timer = setInterval(this.refreshSoon, REREAD_MS).unref()

  /** @param onRead - is called after each read until `close`, and must not throw */
  constructor(
    private readonly source: Watchable<T>, private readonly onRead: (reading: Reading<T>) => void,
  ) {
    this.opened = this.open()
    this.opened.catch(() => { this.close() })
  }

  /** Resolves after a read that began no earlier than this call. Never rejects. */
  async refresh(): Promise<void> {
    await this.reading
    if (!this.isClosed) this.reading ??= this.read().finally(() => { this.reading = undefined })
    return this.reading
  }

  close(): void {
    this.isClosed = true
    clearInterval(this.timer)
    this.unwatch?.()
  }

  private async open(): Promise<void> {
    this.unwatch = await this.source.watch(this.refreshSoon)
    if (this.isClosed) this.unwatch()
  }

  private async read(): Promise<void> {
    let reading: Reading<T>
    try {
      reading = { value: await this.source.read() }
    } catch (error) {
      reading = { error }
    }
    if (!this.isClosed) this.onRead(reading)
  }
}

/** Limits of a wait. */
export interface WaitOptions {
  /** Longest wait, in milliseconds. */
  readonly timeoutMs: number
  /** Ends the wait early. */
  readonly signal?: AbortSignal | undefined
}

/**
 * Waits until `isOver` accepts the value or the time is over. Returns the value that was read last.
 * Rejects if a read fails. Keeps the process alive.
 */
export function waitUntil<T>(
  source: Watchable<T>, isOver: (value: T) => boolean, { timeoutMs, signal }: WaitOptions,
): Promise<T> {
  return new Promise((resolve, reject) => {
    let isLast = timeoutMs <= 0 || signal?.aborted === true
    const end = (): void => {
      watch.close()
      clearTimeout(timer)
      signal?.removeEventListener('abort', readLast)
    }
    const fail = (error: Error): void => {
      end()
      reject(error)
    }
    const watch = new Watch(source, (reading) => {
      if ('error' in reading) return fail(reading.error as Error)
      if (!isLast && !isOver(reading.value)) return
      end()
      resolve(reading.value)
    })
    const readLast = (): void => {
      isLast = true
      void watch.refresh()
    }
    const timer = setGlobalTimeout(readLast, timeoutMs)
    signal?.addEventListener('abort', readLast, { once: true })
    watch.opened.then(() => watch.refresh(), fail)
  })
}
