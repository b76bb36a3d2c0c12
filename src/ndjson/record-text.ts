import type { Piece } from '../http/body/encode.js'
import { Turns, setGlobalTimeout } from '../runtime/timers.js'

/** Layout of a body with records: one on each line, or one JSON array. */
export type Layout = 'lines' | 'array'

/** Number of UTF-16 units that fill a piece of the body. */
export const FULL_UNITS = 65_536

export class RecordText<T> {
  private text = ''
  private begun = false

  constructor(
    private readonly stringify: (record: T) => string | undefined, private readonly layout: Layout,
  ) {}

  get units(): number {
    return this.text.length
  }

  get full(): boolean {
    return this.text.length >= FULL_UNITS
  }

  /** @throws {TypeError} The record is not an object, or JSON cannot represent it. */
  add(record: T): void {
    if (typeof record !== 'object' || record === null) {
      const type = record === null ? 'null' : typeof record
      throw new TypeError(`A record must be an object, not ${type}`)
    }
    // JSON would write these as `{}`.
    if (record instanceof Error) throw record
    if (record instanceof Promise) throw new TypeError('A record must be an object, not a promise')
    const line = this.lineOf(record)
    if (line === undefined) {
      throw new TypeError('A record must be an object that JSON can represent')
    }
    if (this.layout === 'lines') this.text += `${line}\n`
    else {
      this.text += this.begun ? `,\n${line}` : `[${line}`
      this.begun = true
    }
  }

  private lineOf(record: T): string | undefined {
    try {
      return this.stringify(record)
    } catch (error) {
      if (!(error instanceof RangeError)) throw error
      throw new TypeError('A record is nested too deeply for JSON', { cause: error })
    }
  }

  addAll(records: readonly T[]): void {
    for (const record of records) this.add(record)
  }

  take(): Buffer {
    const bytes = Buffer.from(this.text)
    this.text = ''
    return bytes
  }

  end(): void {
    if (this.layout === 'array') this.text += this.begun ? ']\n' : '[]\n'
  }
}

/** Returns true for a list of records. A record itself is never an array. */
export function isList<T>(item: T | readonly T[]): item is readonly T[] {
  return Array.isArray(item)
}

export async function* syncPieces<T>(
  source: Iterable<T | readonly T[]>, text: RecordText<T>,
): AsyncGenerator<Piece, void, undefined> {
  const turns = new Turns()
  for (const item of source) {
    // Lists are not flattened by a generator, because that costs as much as the serialisation.
    if (!isList(item)) text.add(item)
    else {
      for (const record of item) {
        text.add(record)
        if (!text.full) continue
        yield { bytes: text.take(), flush: false }
        if (turns.due) await turns.next()
      }
    }
    if (!text.full) continue
    yield { bytes: text.take(), flush: false }
    if (turns.due) await turns.next()
  }
  text.end()
  if (text.units > 0) yield { bytes: text.take(), flush: false }
}

/** Maximum time that a record waits for others before it is sent, in milliseconds. */
const FLUSH_MS = 50
/** Maximum number of records that are serialised at once, which costs less than one by one. */
const MAX_BATCH = 16
/** Maximum length of a batch in UTF-16 units: larger records are serialised one by one. */
const BATCH_UNITS = FULL_UNITS / 16

type Step = IteratorResult<Piece, undefined>

/** Serialises records of an asynchronous source into pieces of 64 KiB, or less if it is slow. */
export class AsyncPieces<T> implements AsyncIterableIterator<Piece, undefined, undefined> {
  private readonly turns = new Turns()
  private iterator: AsyncIterator<T | readonly T[]> | undefined
  private readonly batch: T[] = []
  private batchSize = 1
  private waitingRead: { resolve(step: Step): void; reject(error: unknown): void } | undefined
  /** Resumes the reader, which waits with a full piece for the next call of `next`. */
  private resume: () => void = ignore
  private timer: NodeJS.Timeout | undefined
  /** True if a record has been waiting since the timer was started. */
  private timing = false
  private flushDue = false
  private ended = false
  private failure: { readonly error: unknown } | undefined

  constructor(
    private readonly source: AsyncIterable<T | readonly T[]>, private readonly text: RecordText<T>,
  ) {}

  [Symbol.asyncIterator](): this {
    return this
  }

  next(): Promise<Step> {
    return new Promise((resolve, reject) => {
      this.waitingRead = { resolve, reject }
      if (this.ended) this.finish()
      else if (this.flushDue) this.deliver()
      else if (this.iterator === undefined) this.start()
      else this.resume()
    })
  }

  return(): Promise<Step> {
    const { waitingRead } = this
    if (!this.ended) {
      this.stop()
      close(this.source, this.iterator ?? this.source[Symbol.asyncIterator]())
    }
    this.waitingRead = undefined
    waitingRead?.resolve({ done: true, value: undefined })
    return Promise.resolve({ done: true, value: undefined })
  }

  private start(): void {
    try {
      this.iterator = this.source[Symbol.asyncIterator]()
      this.request()
    } catch (error) {
      this.fail(error)
    }
  }

  private request(): void {
    const { iterator } = this
    if (iterator) Promise.resolve(iterator.next()).then(this.receive, this.fail)
  }

  private readonly receive = (step: IteratorResult<T | readonly T[], undefined>): void => {
    if (this.ended) return
    try {
      if (step.done === true) this.endSource()
      else if (!isList(step.value) && !this.addRecord(step.value)) this.request()
      else this.write(step.value).then(undefined, this.fail)
    } catch (error) {
      this.fail(error)
    }
  }

  private async write(value: T | readonly T[]): Promise<void> {
    this.writeBatch()
    if (isList(value)) await this.addList(value)
    else if (this.text.full) await this.deliverFull()
    if (!this.ended) this.request()
  }

  private endSource(): void {
    this.writeBatch()
    this.text.end()
    this.stop()
    if (this.waitingRead) this.finish()
  }

  private async addList(records: readonly T[]): Promise<void> {
    for (const record of records) {
      this.text.add(record)
      this.startTimer()
      if (this.text.full) await this.deliverFull()
      if (this.ended) return
    }
  }

  private addRecord(record: T): boolean {
    this.startTimer()
    return this.batch.push(record) >= this.batchSize || this.flushDue
  }

  private writeBatch(): void {
    const { batch, text } = this
    if (batch.length === 0) return
    const before = text.units
    for (const record of batch) text.add(record)
    const average = (text.units - before) / batch.length
    // The last batch of a piece fills it, and does not exceed it by more than one record.
    const room = text.full ? FULL_UNITS : FULL_UNITS - text.units
    const fitting = Math.floor(Math.min(BATCH_UNITS, room) / average)
    this.batchSize = Math.max(1, Math.min(MAX_BATCH, fitting))
    batch.length = 0
  }

  private startTimer(): void {
    if (this.timing) return
    this.timing = true
    this.timer = this.timer?.refresh() ?? setGlobalTimeout(() => { this.flush() }, FLUSH_MS).unref()
  }

  private flush(): void {
    if (!this.timing) return
    try {
      this.writeBatch()
    } catch (error) {
      this.fail(error)
      return
    }
    this.flushDue = true
    if (this.waitingRead) this.deliver()
  }

  private async deliverFull(): Promise<void> {
    if (!this.waitingRead) await new Promise<void>((resolve) => { this.resume = resolve })
    // The timer may have delivered it already.
    if (this.ended || !this.text.full) return
    this.deliver()
    if (this.turns.due) await this.turns.next()
  }

  private deliver(): void {
    const { waitingRead, flushDue } = this
    this.waitingRead = undefined
    this.flushDue = this.timing = false
    waitingRead?.resolve({ done: false, value: { bytes: this.text.take(), flush: flushDue } })
  }

  private readonly fail = (error: unknown): void => {
    if (this.ended) return
    this.failure = { error }
    this.stop()
    if (this.iterator) close(this.source, this.iterator)
    if (this.waitingRead) this.finish()
  }

  private stop(): void {
    this.ended = true
    clearTimeout(this.timer)
    this.resume()
  }

  /** Delivers the rest of the text, then the end or the failure. */
  private finish(): void {
    const { waitingRead, failure } = this
    if (!failure && this.text.units > 0) {
      this.deliver()
      return
    }
    this.waitingRead = this.failure = undefined
    if (failure) waitingRead?.reject(failure.error)
    else waitingRead?.resolve({ done: true, value: undefined })
  }
}

/** Stops a source. Destroys a stream, because its iterator would wait for the next chunk. */
function close(source: object, iterator: AsyncIterator<unknown>): void {
  try {
    const { destroy } = source as { destroy?: unknown }
    if (typeof destroy === 'function') destroy.call(source)
    else iterator.return?.().then(undefined, ignore)
  } catch {
    // The source is no longer read, so its error is ignored.
  }
}

function ignore(): void {}
