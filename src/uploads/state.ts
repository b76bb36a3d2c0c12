import type { RequestHeaders } from '../http/exchange.js'
import type { Revision } from '../stores/store.js'

/** State of one upload, as JSON in the store. Each change is a compare-and-set of the whole. */
export interface UploadState {
  /** Owner id; `null` for an upload without an owner. */
  readonly owner: string | null
  /** Name under which the upload counts for `maxPerOwner` and `maxBytesPerOwner`. */
  readonly countedAs: string
  /** The request that created the upload. */
  readonly request: StoredRequest
  /** Size of the whole in bytes; `null` until the client has announced it. */
  readonly length: number | null
  /** Number of bytes in `parts`. */
  readonly offset: number
  /** Blobs of the bytes, in order. */
  readonly parts: readonly Part[]
  /** Id of the request that appends; `null` if none does. Any other request must not write. */
  readonly writer: string | null
  /** True if another request waits until the writer has stored its bytes and stopped. */
  readonly asked: boolean
  /** True if all bytes are here. The handler then gets them. */
  readonly received: boolean
  /** `true` once the handler has answered. `request` then has no header fields any more. */
  readonly answered?: true
}

/** Name and size in bytes of one part. The name is unique, so no writer replaces another's part. */
export type Part = readonly [name: string, size: number]

/** The parts of a request that its handler sees again when the upload is complete. */
export interface StoredRequest {
  readonly method: string
  readonly path: string
  readonly search: string
  readonly mountPath: string
  readonly params: Readonly<Record<string, string>>
  readonly version: string | null
  /** Header fields without credentials and without those that describe one message. */
  readonly headers: RequestHeaders
}

/** A state with its revision in the store. */
export interface HeldState {
  readonly state: UploadState
  readonly revision: Revision
}

const ID = /^[A-Za-z0-9_-]{22}$/

/** Returns whether `id` has the form of an id of an upload. */
export function isUploadId(id: string | undefined): id is string {
  return id !== undefined && ID.test(id)
}

/** Returns the key of the state in the store. */
export function stateKey(id: string): string {
  return `upload:${id}`
}

/** Returns the key of the claim that holds the answer of the handler. */
export function answerKey(id: string): string {
  return `upload-answer:${id}`
}

/** Returns the key of a part in the blobs. */
export function partKey(id: string, name: string): string {
  return `upload/${id}/${name}`
}

/** Returns the key of the counter whose lifetime is that of the upload. */
export function ageKey(id: string): string {
  return `upload-age:${id}`
}
