import { httpError } from '../http/errors.js'
import { waitForEntry } from '../idempotency/claim.js'
import type { Blobs } from '../stores/blobs.js'
import type { Entry, ReplaceOptions, Store } from '../stores/store.js'
import { uploadFields } from './fields.js'
import { partKey, stateKey, type HeldState, type Part, type UploadState } from './state.js'

/**
 * Time in milliseconds that a new request waits for the one that appends. A writer that does not
 * stop by then, because its process is dead or frozen, is fenced.
 */
const HAND_OVER_MS = 3000
/** Writes that are tried again while the store fails. */
const TRIES = 3

/** Reads and writes the states of uploads. */
export class UploadRecords {
  constructor(private readonly store: Store, private readonly blobs: Blobs) {}

  /** Creates an upload. It expires `ttlMs` after now, by the clock of the store. */
  async create(id: string, state: UploadState, ttlMs: number): Promise<HeldState> {
    const made = await this.store.create(stateKey(id), JSON.stringify(state), { ttlMs })
    if (!made.created) throw new Error('A new upload has the id of another one')
    return { state, revision: made.revision }
  }

  /**
   * Returns the state of an upload.
   *
   * @throws {HttpError} `upload_not_found`: it does not exist, or belongs to another owner.
   */
  async find(id: string, owner: string | undefined): Promise<HeldState> {
    const entry = await this.store.get(stateKey(id))
    const held = entry && toHeld(entry)
    if (held?.state.owner !== (owner ?? null)) throw httpError('upload_not_found')
    return held
  }

  /** Returns whether an upload exists. */
  async exists(id: string): Promise<boolean> {
    return await this.store.get(stateKey(id)) !== undefined
  }

  /**
   * Ends the request that appends to an upload, if there is one, and returns the state after it.
   * Asks the writer to store what it has, and fences it if it does not.
   *
   * @throws {HttpError} `upload_not_found`
   */
  async settle(id: string, owner: string | undefined): Promise<HeldState> {
    const deadline = performance.now() + HAND_OVER_MS
    for (;;) {
      const { state, revision } = await this.find(id, owner)
      if (state.writer === null) return { state, revision }
      const left = deadline - performance.now()
      const isLate = left <= 0
      if (isLate || !state.asked) {
        const change = isLate ? { writer: null, asked: false } : { asked: true }
        const next = { ...state, ...change }
        const outcome = await this.store.replace(stateKey(id), JSON.stringify(next), revision, {})
        if (isLate && outcome.replaced) return { state: next, revision: outcome.revision }
        if (!outcome.replaced) continue
      }
      await waitForEntry(this.store, stateKey(id), {
        timeoutMs: Math.max(left, 0), signal: undefined,
        until: (entry) => entry === undefined || toHeld(entry).state.writer !== state.writer,
      })
    }
  }

  /** Writes a state if its revision is still the current one. Returns `undefined` if it is not. */
  async replace(
    id: string, next: UploadState, { revision }: HeldState,
  ): Promise<HeldState | undefined> {
    const outcome = await this.store.replace(stateKey(id), JSON.stringify(next), revision, {})
    return outcome.replaced ? { state: next, revision: outcome.revision } : undefined
  }

  /**
   * Writes the state that `change` makes of the writer's own. If only a request to stop was written
   * in between, or the reply of the store was lost, tries again.
   *
   * @throws {HttpError} `upload_superseded`: another request writes now. `upload_not_found`: the
   * upload was dropped or has expired.
   */
  async commit(
    id: string, writer: string, held: HeldState, change: (state: UploadState) => UploadState,
    options: ReplaceOptions = {},
  ): Promise<HeldState> {
    let current = held
    for (let failures = 0; ;) {
      const next = change(current.state)
      let entry: Entry | undefined
      try {
        const outcome = await this.store.replace(
          stateKey(id), JSON.stringify(next), current.revision, options,
        )
        if (outcome.replaced) return { state: next, revision: outcome.revision }
        entry = outcome.entry
      } catch (error) {
        if (++failures >= TRIES) throw error
        entry = await this.store.get(stateKey(id))
      }
      if (entry === undefined) throw httpError('upload_not_found')
      const found = toHeld(entry)
      if (hasLanded(found.state, next, current.state)) return found
      if (found.state.writer !== writer) throw superseded(found.state)
      current = found
    }
  }

  /**
   * Drops what the handler needed, once it has answered. Never rejects: what stays expires, and
   * counts for its owner.
   */
  async noteAnswered(id: string): Promise<void> {
    for (let tried = 0; tried < TRIES; tried++) {
      try {
        const entry = await this.store.get(stateKey(id))
        if (!entry) return
        const { state } = toHeld(entry)
        const request = { ...state.request, search: '', params: {}, headers: {} }
        const next: UploadState = { ...state, request, parts: [], answered: true }
        const text = JSON.stringify(next)
        const outcome = await this.store.replace(stateKey(id), text, entry.revision, settled(state))
        if (outcome.replaced) return
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
}

/** Returns how an answered upload is kept: its owner loses it if it has too many. */
function settled({ countedAs }: UploadState): ReplaceOptions {
  return { evictable: true, owner: countedAs }
}

/** Decodes a state from its entry. */
export function toHeld({ value, revision }: Entry): HeldState {
  return { state: JSON.parse(value) as UploadState, revision }
}

/** Returns the answer to a request that was ended in favour of a newer one. */
export function superseded({ offset }: UploadState): Error {
  return httpError('upload_superseded', {
    headers: uploadFields(offset) as Record<string, string>,
  })
}

/**
 * Returns whether a write of `next` in place of `before` has landed, though its reply was lost.
 * Another request may have written since. Names of parts are unique, so the last one tells.
 */
function hasLanded(found: UploadState, next: UploadState, before: UploadState): boolean {
  if (next.received) return found.received
  const last = next.parts.length - 1
  if (next.parts.length > before.parts.length) {
    return found.parts[last]?.[0] === next.parts[last]?.[0]
  }
  return found.writer === next.writer
}
