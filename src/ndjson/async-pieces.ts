import type { Piece } from '../http/body/encode.js'
import type { LineText } from './line-text.js'
import { isList } from './sync-pieces.js'
import { Turns } from '../runtime/turns.js'

/** A record waits no longer than this for others to go with it, in milliseconds. */
const FLUSH_MS = 50

type Step = IteratorResult<Piece, undefined>

/**
 * Records that come by and by, as pieces of some 64 KiB, or smaller ones when the source is slow.
 * At most one piece is made before it is asked for. Leaving stops the source.
 */
export class AsyncPieces<T> implements AsyncIterableIterator<Piece, undefined, undefined> {
  private readonly source: AsyncIterable<T | readonly T[]>
  private readonly text: LineText<T>
  private readonly turns = new Turns()
  private timer: NodeJS.Timeout | undefined
  private iterator: AsyncIterator<T | readonly T[]> | undefined
  /** Settles the step that was asked for. */
  private asked: { resolve(step: Step): void; reject(error: unknown): void } | undefined
  /** Lets the source go on after a piece that nobody had asked for. */
  private goOn: () => void = ignore
  private overdue = false
  private armed = false
  private over = false
  private failure: { readonly error: unknown } | undefined

  constructor(source: AsyncIterable<T | readonly T[]>, text: LineText<T>) {
    this.source = source
    this.text = text
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  next(): Promise<Step> {
    return new Promise((resolve, reject) => {
      this.asked = { resolve, reject }
      if (this.over) this.finish()
      else if (this.overdue) this.deliver()
      else if (this.iterator === undefined) void this.run()
      else this.goOn()
    })
  }

  /** Nobody reads on. */
  return(): Promise<Step> {
    const { asked } = this
    if (!this.over) {
      this.over = true
      clearTimeout(this.timer)
      this.goOn()
      close(this.source, this.iterator ?? this.source[Symbol.asyncIterator]())
    }
    this.asked = undefined
    asked?.resolve({ done: true, value: undefined })
    return Promise.resolve({ done: true, value: undefined })
  }

  private async run(): Promise<void> {
    try {
      const iterator = this.iterator = this.source[Symbol.asyncIterator]()
      for (;;) {
        const { done, value } = await iterator.next() as IteratorResult<T | readonly T[], undefined>
        if (this.over) return
        if (done === true) break
        if (isList(value)) {
          for (const record of value) {
            if (this.add(record)) await this.handOver()
            if (this.over) return
          }
        } else if (this.add(value)) await this.handOver()
        if (this.over) return
      }
      this.text.end()
    } catch (error) {
      if (this.over) return
      this.failure = { error }
      if (this.iterator) close(this.source, this.iterator)
    }
    this.over = true
    clearTimeout(this.timer)
    if (this.asked) this.finish()
  }

  /** Whether the piece is full now. */
  private add(record: T): boolean {
    this.text.add(record)
    if (this.text.full) return true
    if (!this.armed) {
      this.armed = true
      this.timer = this.timer?.refresh() ?? setTimeout(() => { this.flush() }, FLUSH_MS).unref()
    }
    return false
  }

  private flush(): void {
    if (!this.armed) return
    this.overdue = true
    if (this.asked) this.deliver()
  }

  private async handOver(): Promise<void> {
    if (!this.asked) await new Promise<void>((resolve) => { this.goOn = resolve })
    // A timer may have been quicker.
    if (this.over || !this.text.full) return
    this.deliver()
    if (this.turns.due) await this.turns.next()
  }

  private deliver(): void {
    const { asked, overdue } = this
    this.asked = undefined
    this.overdue = this.armed = false
    asked?.resolve({ done: false, value: { bytes: this.text.take(), flush: overdue } })
  }

  /** The last steps: what is left, then the end or the failure. */
  private finish(): void {
    const { asked, failure } = this
    if (!failure && !this.text.empty) {
      this.deliver()
      return
    }
    this.asked = this.failure = undefined
    if (failure) asked?.reject(failure.error)
    else asked?.resolve({ done: true, value: undefined })
  }
}

/** A stream is destroyed: its iterator would wait for a chunk that may never come. */
function close(source: object, iterator: AsyncIterator<unknown>): void {
  try {
    const { destroy } = source as { destroy?: unknown }
    if (typeof destroy === 'function') destroy.call(source)
    else iterator.return?.().then(undefined, ignore)
  } catch {
    // It failed at stopping; nobody reads it any more.
  }
}

function ignore(): void {}
