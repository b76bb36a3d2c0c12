import { httpError } from '../http/errors.js'
import type { BodySource, RequestHeaders } from '../http/exchange.js'
import { waitForEntry } from '../idempotency/once.js'
import { newId } from '../runtime/random-id.js'
import type { Blobs } from '../stores/blobs.js'
import type { Entry, ReplaceOptions, Revision, Store } from '../stores/store.js'
import { superseded } from './protocol.js'

/** State of one upload, as JSON in the store. Each change is a compare-and-set. */
export interface UploadState {
  /** Owner id; `null` for an upload without an owner. */
  readonly owner: string | null
  /** Name under which the upload counts for `maxPerOwner` and `maxBytesPerOwner`. */
  readonly countedAs: string
  readonly request: StoredRequest
  /** Size of the complete upload in bytes; `null` until the client announces it. */
  readonly length: number | null
  readonly offset: number
  /** Blobs of the bytes, in order. */
  readonly parts: readonly Part[]
  /** Id of the request that appends; `null` if none does. Any other request must not write. */
  readonly writer: string | null
  /** True if another request waits until the writer has stored its bytes and stopped. */
  readonly asked: boolean
  /** True if the request that appends, or appended last, has `Upload-Complete: ?1`. */
  readonly final: boolean
  /** True if all bytes have arrived. The handler then gets them. */
  readonly received: boolean
  /** `true` once the handler has responded. `request` then has no headers any more. */
  readonly answered?: true
}

/** Name and size in bytes of one part. The name is unique, so no writer replaces another's part. */
export type Part = readonly [name: string, size: number]

export interface StoredRequest {
  readonly method: string
  readonly path: string
  readonly search: string
  readonly mountPath: string
  readonly params: Readonly<Record<string, string>>
  readonly version: string | null
  /** Headers without credentials and without those that describe one message. */
  readonly headers: RequestHeaders
}

export interface HeldState {
  readonly state: UploadState
  readonly revision: Revision
}

const ID = /^[A-Za-z0-9_-]{22}$/

export function isUploadId(id: string | undefined): id is string {
  return id !== undefined && ID.test(id)
}

export function stateKey(id: string): string {
  return `upload:${id}`
}

export function answerKey(id: string): string {
  return `upload-answer:${id}`
}

export function partKey(id: string, name: string): string {
  return `upload/${id}/${name}`
}

export function ageKey(id: string): string {
  return `upload-age:${id}`
}

/**
 * Time in milliseconds that a new request waits for the one that appends. A writer that does not
 * stop by then, because its process is dead or frozen, is fenced.
 */
const HAND_OVER_MS = 3000
/** A notice of the store may be lost, so the state is read again this often, in milliseconds. */
const REREAD_MS = 1000
/** Writes that are tried again while the store fails. */
const TRIES = 3

export class UploadRecords {
  /** @param retentionMs - time that a received upload stays */
  constructor(
    readonly store: Store, private readonly blobs: Blobs, private readonly retentionMs: number,
  ) {}

  /** Creates an upload. It expires `ttlMs` after now, by the clock of the store. */
  async create(id: string, state: UploadState, ttlMs: number): Promise<UploadWriter> {
    const made = await this.store.create(stateKey(id), JSON.stringify(state), { ttlMs })
    if (!made.created) throw new Error('A new upload has the id of another one')
    return this.writer(id, { state, revision: made.revision })
  }

  /** Returns the state of an upload. */
  private async find(id: string, owner: string | undefined): Promise<HeldState> {
    const entry = await this.store.get(stateKey(id))
    const held = entry && toHeld(entry)
    if (held?.state.owner !== (owner ?? null)) throw httpError('upload_not_found')
    return held
  }

  async exists(id: string): Promise<boolean> {
    return await this.store.get(stateKey(id)) !== undefined
  }

  /**
   * Ends the request that appends to an upload, if there is one, and returns the state after it.
   * The upload is then received if the last byte of its last request was stored.
   */
  async settle(id: string, owner: string | undefined): Promise<HeldState> {
    const deadline = performance.now() + HAND_OVER_MS
    for (;;) {
      const held = await this.find(id, owner)
      const { state } = held
      if (state.writer === null) return held
      const left = deadline - performance.now()
      if (left <= 0) {
        const next = released(state)
        const fenced = await replace(this.store, id, held, next, lifetime(next, this.retentionMs))
        if (fenced) return fenced
        continue
      }
      if (!state.asked && !await replace(this.store, id, held, { ...state, asked: true })) continue
      const isOver = (entry: Entry | undefined) => !entry || toHeld(entry).state.writer !== state.writer
      await waitForEntry(this.store, stateKey(id), isOver, left)
    }
  }

  /**
   * Acquires an upload that has no writer. Returns `undefined` if it has changed since it was read.
   */
  async acquire(
    id: string, held: HeldState, { length, final }: Pick<UploadState, 'length' | 'final'>,
  ): Promise<UploadWriter | undefined> {
    const next = { ...held.state, length, final, writer: newId(), asked: false }
    const acquired = await replace(this.store, id, held, next)
    return acquired && this.writer(id, acquired)
  }

  /** Deletes the stored headers and parts, once the handler has responded. */
  async noteAnswered(id: string): Promise<void> {
    for (let tried = 0; tried < TRIES; tried++) {
      try {
        const entry = await this.store.get(stateKey(id))
        if (!entry) return
        const held = toHeld(entry)
        const { state } = held
        const request = { ...state.request, search: '', params: {}, headers: {} }
        // May be deleted early if its owner has too many of them.
        const options = { evictable: true, owner: state.countedAs }
        const next: UploadState = { ...state, request, parts: [], answered: true }
        if (await replace(this.store, id, held, next, options)) return
      } catch {
        // The store fails.
      }
    }
  }

  /** Removes an upload, and its parts unless the handler may be reading them. */
  async remove(id: string, owner: string | undefined): Promise<UploadState> {
    for (;;) {
      const { state, revision } = await this.find(id, owner)
      if (!await this.store.delete(stateKey(id), revision)) continue
      if (!state.received) await this.deleteParts(id, state.parts)
      return state
    }
  }

  /** Deletes parts. Those that cannot be deleted expire. */
  async deleteParts(id: string, parts: readonly Part[]): Promise<void> {
    for (const [name] of parts) {
      await this.blobs.delete(partKey(id, name)).catch(() => undefined)
    }
  }

  private writer(id: string, held: HeldState): UploadWriter {
    return new UploadWriter(this.store, id, held, this.retentionMs)
  }
}

/** The right to append to one upload. Ends when another request acquires it. */
export class UploadWriter {
  #written = 0
  isAsked = false
  private readonly name: string

  constructor(
    private readonly store: Store, readonly id: string, private held: HeldState,
    private readonly retentionMs: number,
  ) {
    this.name = held.state.writer as string
  }

  get state(): UploadState {
    return this.held.state
  }

  /** False once the right to append has ended. */
  get isWriting(): boolean {
    return this.state.writer === this.name
  }

  /** Returns the name of the next part. No other writer uses it. */
  newPart(): string {
    return `${this.name}-${(this.#written++).toString(36)}`
  }

  async add(parts: readonly Part[]): Promise<void> {
    await this.commit((state) => withParts(state, parts))
  }

  /** Adds parts and ends the right to append. Sets the length of the upload, if it is known now. */
  async release(parts: readonly Part[], length?: number): Promise<void> {
    await this.commit((state) => (
      released({ ...withParts(state, parts), length: length ?? state.length })
    ))
  }

  /** Stops `body` when another request asks for the upload. Returns a function that ends this. */
  async watch(body: BodySource, stop: () => void): Promise<() => void> {
    let isReading = false
    let isStale = false
    const read = async (): Promise<void> => {
      isStale = true
      if (isReading) return
      isReading = true
      try {
        while (isStale && !this.isAsked) {
          isStale = false
          const entry = await this.store.get(stateKey(this.id))
          const state = entry && toHeld(entry).state
          if (state?.writer === this.name && !state.asked) continue
          this.isAsked = true
          stop()
          body.stop?.()
        }
      } catch {
        // The next read may succeed. A write notices the loss in any case.
      } finally {
        isReading = false
      }
    }
    const unwatch = await this.store.watch(stateKey(this.id), () => { void read() })
    const timer = setInterval(() => { void read() }, REREAD_MS).unref()
    return () => {
      clearInterval(timer)
      unwatch()
    }
  }

  /** Applies a change to the state of the writer, and stores the result. */
  private async commit(change: (state: UploadState) => UploadState): Promise<void> {
    const { store, id, retentionMs } = this
    for (let failures = 0; ;) {
      const before = this.held
      const next = change(before.state)
      let entry: Entry | undefined
      try {
        const options = lifetime(next, retentionMs)
        const outcome = await store.replace(stateKey(id), JSON.stringify(next), before.revision, options)
        if (outcome.replaced) {
          this.held = { state: next, revision: outcome.revision }
          return
        }
        entry = outcome.entry
      } catch (error) {
        if (++failures >= TRIES) throw error
        entry = await store.get(stateKey(id))
      }
      if (entry === undefined) throw httpError('upload_not_found')
      const found = toHeld(entry)
      const hasLanded = isAfter(found.state, next, before.state)
      if (!hasLanded && found.state.writer !== this.name) throw superseded(found.state.offset)
      this.held = found
      if (hasLanded) return
    }
  }
}

/** Writes a state if its revision is still the current one. Returns `undefined` if it is not. */
async function replace(
  store: Store, id: string, { revision }: HeldState, next: UploadState, options: ReplaceOptions = {},
): Promise<HeldState | undefined> {
  const outcome = await store.replace(stateKey(id), JSON.stringify(next), revision, options)
  return outcome.replaced ? { state: next, revision: outcome.revision } : undefined
}

/**
 * Ends the right to append. The upload is received if all bytes are there and the request that
 * appended them has announced the end, whatever became of this request.
 */
function released(state: UploadState): UploadState {
  const received = state.final && state.offset === state.length
  return { ...state, writer: null, asked: false, received }
}

function lifetime({ received }: UploadState, retentionMs: number): ReplaceOptions {
  return received ? { ttlMs: retentionMs } : {}
}

function withParts(state: UploadState, added: readonly Part[]): UploadState {
  return { ...state, offset: state.offset + bytesOf(added), parts: [...state.parts, ...added] }
}

export function bytesOf(parts: readonly Part[]): number {
  return parts.reduce((sum, [, size]) => sum + size, 0)
}

function toHeld({ value, revision }: Entry): HeldState {
  return { state: JSON.parse(value) as UploadState, revision }
}

/** Returns whether a write of `next` in place of `before` has landed, though its reply was lost. */
function isAfter(found: UploadState, next: UploadState, before: UploadState): boolean {
  if (next.received) return found.received
  const last = next.parts.length - 1
  if (next.parts.length > before.parts.length) {
    return found.parts[last]?.[0] === next.parts[last]?.[0]
  }
  return found.writer === next.writer
}
