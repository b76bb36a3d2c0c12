import { httpError } from '../http/errors.js'
import type { BodySource, RequestHeaders } from '../http/exchange.js'
import { newId } from '../runtime/random-id.js'
import type { Blobs } from '../stores/blobs.js'
import { isStoreUnavailable, type Store } from '../stores/store.js'
import { StoredRecord, UNCHANGED } from '../stores/stored-record.js'
import { Watch, waitUntil } from '../stores/watched.js'
import { superseded } from './protocol.js'

/** State of one upload, as JSON in the store. Each change is a compare-and-set. */
export interface UploadState {
  /** Owner id; `null` for an upload without an owner. */
  readonly owner: string | null
  /** Caller whom the upload counts for, in `maxPerOwner` and `maxBytesPerOwner`. */
  readonly countedAs: string
  readonly request: StoredRequest
  /** Size of the complete upload in bytes; `null` until the client announces it. */
  readonly length: number | null
  readonly offset: number
  /** Blobs of the bytes, in order. */
  readonly parts: readonly UploadPart[]
  /** Id of the request that appends; `null` if none does. No other request may write. */
  readonly writer: string | null
  /** True if another request waits until the writer has stored its bytes and stopped. */
  readonly asked: boolean
  /** True if the request that appends, or appended last, has `Upload-Complete: ?1`. */
  readonly final: boolean
  /** True if all bytes have arrived. The handler then gets them. */
  readonly received: boolean
  /**
   * `true` once the handler has responded, even if its response is not stored yet. `request` then has no
   * headers any more.
   */
  readonly answered?: true
}

/** Name and size in bytes of one part. The name is unique, so no writer replaces another's part. */
export type UploadPart = readonly [name: string, size: number]

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

export function uploadPartKey(id: string, name: string): string {
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
/** Number of tries of a write while the store fails. */
const TRIES = 3

export type UploadRecord = StoredRecord<UploadState>

export class UploadRecords {
  /** @param retentionMs - time that a received upload stays */
  constructor(
    readonly store: Store, private readonly blobs: Blobs, private readonly retentionMs: number,
  ) {}

  /** Creates an upload. It expires `ttlMs` after now, by the clock of the store. */
  async create(id: string, state: UploadState, ttlMs: number): Promise<UploadWriter> {
    const record = this.record(id)
    if (await record.create(state, { ttlMs })) return new UploadWriter(id, record, this.record(id))
    throw new Error('A new upload has the id of another one')
  }

  /** Returns whether an upload exists and its handler has not responded. */
  async isWaiting(id: string): Promise<boolean> {
    const state = await this.record(id).read()
    return state !== undefined && !state.answered
  }

  /**
   * Ends the request that appends to an upload, if there is one, and returns the upload after it. The
   * upload is then received if the last byte of its last request was stored.
   */
  async settle(id: string, owner: string | undefined): Promise<UploadRecord> {
    const deadline = performance.now() + HAND_OVER_MS
    const record = this.record(id)
    await record.read()
    for (;;) {
      const state = owned(record.value, owner)
      const { writer, asked } = state
      if (writer === null) return record
      const timeoutMs = deadline - performance.now()
      if (timeoutMs <= 0) await record.write(released(state))
      else if (asked || await record.write({ ...state, asked: true })) {
        await waitUntil(record, (now) => now?.writer !== writer, { timeoutMs })
      }
    }
  }

  /** Acquires an upload that has no writer. Returns `undefined` if it has changed since it was read. */
  async acquire(
    id: string, record: UploadRecord, next: Pick<UploadState, 'length' | 'final'>,
  ): Promise<UploadWriter | undefined> {
    const state = record.value as UploadState
    const isAcquired = await record.write({ ...state, ...next, writer: newId(), asked: false })
    return isAcquired ? new UploadWriter(id, record, this.record(id)) : undefined
  }

  /** Notes that the handler has responded. Deletes the stored headers and parts. Never rejects. */
  async noteAnswered(id: string): Promise<void> {
    const record = this.record(id)
    await repeated(() => record.change((state) => state === undefined ? UNCHANGED : {
      ...state, request: { ...state.request, search: '', params: {}, headers: {} }, parts: [],
      answered: true,
    })).catch(() => undefined)
  }

  /** Removes an upload, and its parts unless the handler may be reading them. */
  async remove(id: string, owner: string | undefined): Promise<UploadState> {
    const record = this.record(id)
    let removed: UploadState | undefined
    await record.change((state) => {
      removed = owned(state, owner)
      return undefined
    })
    const { received, parts } = removed as unknown as UploadState
    if (!received) await this.deleteParts(id, parts)
    return removed as unknown as UploadState
  }

  /** Deletes parts. Parts that cannot be deleted expire. */
  async deleteParts(id: string, parts: readonly UploadPart[]): Promise<void> {
    for (const [name] of parts) {
      await this.blobs.delete(uploadPartKey(id, name)).catch(() => undefined)
    }
  }

  private record(id: string): UploadRecord {
    return new StoredRecord<UploadState>(this.store, stateKey(id), {
      options: ({ answered, countedAs: caller, received }) => {
        // May be deleted early if its owner has too many of them.
        if (answered) return { evictable: true, caller }
        return received ? { ttlMs: this.retentionMs } : {}
      },
    })
  }
}

function owned(state: UploadState | undefined, owner: string | undefined): UploadState {
  if (state?.owner !== (owner ?? null)) throw httpError('upload_not_found')
  return state
}

/** The right to append to one upload. Ends when another request acquires it. */
export class UploadWriter {
  #written = 0
  isAsked = false
  /** The newest state that is known. */
  state: UploadState
  private readonly name: string

  /** @param watched - another object for the same entry */
  constructor(
    readonly id: string, private readonly record: UploadRecord,
    private readonly watched: UploadRecord,
  ) {
    this.state = record.value as UploadState
    this.name = this.state.writer as string
  }

  /** False once the right to append has ended. */
  get isWriting(): boolean {
    return this.state.writer === this.name
  }

  /** Returns the name of the next part. No other writer uses it. */
  newPart(): string {
    return `${this.name}-${(this.#written++).toString(36)}`
  }

  async add(parts: readonly UploadPart[]): Promise<void> {
    await this.commit(parts, (state) => state)
  }

  /** Adds parts and ends the right to append. Sets the length of the upload, if it is known now. */
  async release(parts: readonly UploadPart[], length?: number): Promise<void> {
    await this.commit(parts, (state) => released({ ...state, length: length ?? state.length }))
  }

  /**
   * Stops `body` when another request asks for the upload. Returns a function that ends the watch.
   */
  async watch(body: BodySource, stop: () => void): Promise<() => void> {
    const watch = new Watch(this.watched, (reading) => {
      // The next read may succeed. A write notices the loss in any case.
      if ('error' in reading || this.isAsked) return
      if (reading.value?.writer === this.name && !reading.value.asked) return
      this.isAsked = true
      stop()
      body.stop?.()
    })
    await watch.opened
    return () => { watch.close() }
  }

  /** Adds parts, applies a change to the state, and stores the result. */
  private async commit(
    parts: readonly UploadPart[], change: (state: UploadState) => UploadState,
  ): Promise<void> {
    let next: UploadState | undefined
    await repeated(() => this.record.change((found) => {
      if (!found) throw httpError('upload_not_found')
      const hasLanded = next !== undefined && isAfter(found, next, parts)
      if (!hasLanded && found.writer !== this.name) throw superseded(found.offset)
      this.state = found
      if (hasLanded) return UNCHANGED
      next = change(withParts(found, parts))
      return next
    }))
    this.state = this.record.value as UploadState
  }
}

/** Repeats a call at once while the store fails, because most failures are one lost reply. */
async function repeated(work: () => Promise<void>): Promise<void> {
  for (let failures = 0; ;) {
    try {
      return await work()
    } catch (error) {
      if (!isStoreUnavailable(error) || ++failures === TRIES) throw error
    }
  }
}

/**
 * Ends the right to append. The upload is received if all bytes are there and the request that
 * appended them has announced the end, even if this request was interrupted.
 */
function released(state: UploadState): UploadState {
  const received = state.final && state.offset === state.length
  return { ...state, writer: null, asked: false, received }
}

function withParts(state: UploadState, added: readonly UploadPart[]): UploadState {
  return { ...state, offset: state.offset + bytesOf(added), parts: [...state.parts, ...added] }
}

export function bytesOf(parts: readonly UploadPart[]): number {
  return parts.reduce((sum, [, size]) => sum + size, 0)
}

/**
 * Returns whether a write of `next`, which has added parts, has taken effect although its reply was
 * lost.
 */
function isAfter(found: UploadState, next: UploadState, added: readonly UploadPart[]): boolean {
  if (next.received) return found.received
  const last = added.at(-1)
  return last ? found.parts.some(([name]) => name === last[0]) : found.writer === next.writer
}
