import type { BodySource } from '../http/exchange.js'
import { newId } from '../runtime/random-id.js'
import type { ReplaceOptions, Store } from '../stores/store.js'
import { toHeld, type UploadRecords } from './records.js'
import { stateKey, type HeldState, type Part, type UploadState } from './state.js'

/** A notice of the store may be lost, so the state is read again this often, in milliseconds. */
const REREAD_MS = 1000

/** The right to append to one upload. Ends when another request asks for it. */
export class UploadWriter {
  readonly id: string
  readonly name: string
  #held: HeldState
  #written = 0
  /** True if another request has asked for the upload. */
  isAsked = false

  private constructor(
    private readonly records: UploadRecords, id: string, name: string, held: HeldState,
  ) {
    this.id = id
    this.name = name
    this.#held = held
  }

  /** Returns a name for a new writer. */
  static newName(): string {
    return newId()
  }

  /** Returns the writer of an upload that was created with its name. */
  static ofCreated(records: UploadRecords, id: string, held: HeldState): UploadWriter {
    return new UploadWriter(records, id, held.state.writer as string, held)
  }

  /**
   * Acquires an upload that nobody writes. Records its length. Returns `undefined` if it has
   * changed since it was read.
   */
  static async acquire(
    records: UploadRecords, id: string, held: HeldState, length: number | undefined,
  ): Promise<UploadWriter | undefined> {
    const name = UploadWriter.newName()
    const next = { ...held.state, length: length ?? held.state.length, writer: name, asked: false }
    const taken = await records.replace(id, next, held)
    return taken && new UploadWriter(records, id, name, taken)
  }

  get state(): UploadState {
    return this.#held.state
  }

  /** Returns the name of the next part. No other writer uses it. */
  newPart(): string {
    return `${this.name}-${(this.#written++).toString(36)}`
  }

  /** Adds parts, and keeps the right to append. */
  async add(parts: readonly Part[]): Promise<void> {
    await this.#commit((state) => withParts(state, parts))
  }

  /** Adds parts, and ends the right to append. */
  async release(parts: readonly Part[]): Promise<void> {
    const over = { writer: null, asked: false }
    await this.#commit((state) => ({ ...withParts(state, parts), ...over }))
  }

  /** Adds the last parts. Nothing can be appended after them. The state stays for `ttlMs`. */
  async finish(parts: readonly Part[], ttlMs: number): Promise<void> {
    const over = { writer: null, asked: false, received: true }
    await this.#commit((state) => {
      const whole = withParts(state, parts)
      return { ...whole, ...over, length: whole.offset }
    }, { ttlMs })
  }

  /** Stops `body` when another request asks for the upload. Returns a function that ends this. */
  async watch(store: Store, body: BodySource, stop: () => void): Promise<() => void> {
    let isReading = false
    let isStale = false
    const look = async (): Promise<void> => {
      isStale = true
      if (isReading) return
      isReading = true
      try {
        while (isStale && !this.isAsked) {
          isStale = false
          const entry = await store.get(stateKey(this.id))
          const state = entry && toHeld(entry).state
          if (state?.writer === this.name && !state.asked) continue
          this.isAsked = true
          stop()
          body.stop?.()
        }
      } catch {
        // The next look may succeed. A write finds out in any case.
      } finally {
        isReading = false
      }
    }
    const unwatch = await store.watch(stateKey(this.id), () => { void look() })
    const timer = setInterval(() => { void look() }, REREAD_MS).unref()
    return () => {
      clearInterval(timer)
      unwatch()
    }
  }

  async #commit(
    change: (state: UploadState) => UploadState, options?: ReplaceOptions,
  ): Promise<void> {
    this.#held = await this.records.commit(this.id, this.name, this.#held, change, options)
  }
}

function withParts(state: UploadState, added: readonly Part[]): UploadState {
  const bytes = added.reduce((sum, [, size]) => sum + size, 0)
  return { ...state, offset: state.offset + bytes, parts: [...state.parts, ...added] }
}
