import { REQUEST_CODINGS, decodeBytes, type DecodeOptions } from '../../http/body/decode.js'
import { isJsonObject, isWholeNumber } from '../../http/body/json.js'
import { httpError } from '../../http/errors.js'
import { newId } from '../../runtime/random-id.js'
import type { Schema } from '../../schema/schema.js'
import type { Blobs } from '../../stores/blobs.js'
import type { Retry } from '../../stores/calls.js'
import type { ExternalResource } from './external-resource.js'
import { KeptParts, deleteParts, renewParts } from './kept-parts.js'
import type { DecoderMemory } from '../../http/body/counted-body.js'
import type { MaybePromise } from '../../runtime/maybe-promise.js'

/** Reference to a request body that is kept in blobs until its task reads it. */
export interface SpooledBody {
  /** Key of the blob. */
  readonly blob: string
  /** Content coding of the bytes. */
  readonly coding: string
  /** Number of bytes as sent. */
  readonly size: number
}

type MemberChecks = Readonly<Record<string, (value: unknown) => boolean>>

const WEEK_MS = 604_800_000
const CODINGS: readonly unknown[] = ['identity', ...REQUEST_CODINGS]

export class Spool {
  readonly external: Required<Omit<ExternalResource<SpooledBody>, 'remove'>>

  /**
   * @param caller - name of the public function, for error messages
   * @param prefix - prefix of the blob keys
   * @param retentionMs - time that a body is kept without a renewal, in milliseconds
   * @throws {TypeError} `retentionMs` is less than a second.
   */
  constructor(
    caller: string, private readonly prefix: string, readonly blobs: Blobs,
    readonly retentionMs = WEEK_MS,
  ) {
    if (!blobs) throw new TypeError(`${caller}: background.blobs is required`)
    if (!(retentionMs >= 1000)) {
      throw new TypeError(`${caller}: background.blobRetentionMs must be 1000 or more`)
    }
    this.external = {
      of: ({ blob }) => blob,
      async release(blob) {
        await deleteParts(blobs, blob)
        await blobs.delete(blob)
      },
      async renew(blob, ttlMs) {
        await renewParts(blobs, blob, ttlMs)
        return await blobs.renew(blob, ttlMs) !== undefined
      },
      // A completed task keeps no body.
      bytes: async (blob, { status }) => (
        status === 'completed' ? 0 : (await blobs.stat(blob))?.size ?? 0
      ),
    }
  }

  /**
   * Returns the schema of a spooled body with further properties, each with its check. The check of
   * the key prevents a client that starts tasks by name from reading other blobs. Written out,
   * because ajv would be a cost for handlers without background tasks too.
   */
  input<T extends SpooledBody = SpooledBody>(members: MemberChecks = {}): Schema<T, T> {
    const key = new RegExp(`^${this.prefix}[A-Za-z0-9_-]{22}$`)
    const checks: MemberChecks = {
      blob: (value) => typeof value === 'string' && key.test(value),
      coding: (value) => CODINGS.includes(value),
      size: isWholeNumber,
      ...members,
    }
    const validate = (value: unknown) => {
      const body: Readonly<Record<string, unknown>> = isJsonObject(value) ? value : {}
      const wrong = Object.keys(checks).filter((name) => !checks[name]?.(body[name]))
      if (wrong.length === 0) return { value: value as T }
      return { issues: wrong.map((name) => ({ path: [name], message: 'is not valid' })) }
    }
    return { '~standard': { version: 1, vendor: 'longhaul', validate } }
  }

  newKey(): string {
    return this.prefix + newId()
  }

  /**
   * Returns the bytes as sent.
   *
   * @param start - offset of the first byte
   * @throws {HttpError} `gone`: the blob no longer exists.
   */
  async open({ blob }: SpooledBody, start = 0): Promise<AsyncIterable<Uint8Array>> {
    const bytes = await this.blobs.open(blob, start === 0 ? undefined : { start })
    if (bytes !== undefined) return bytes
    throw httpError('gone', { message: 'What was sent is no longer here.' })
  }

  /**
   * Returns the parts of a text that the task of a body writes.
   *
   * @param run - number of the run
   * @param retry - repeats a write while the blobs are unavailable
   */
  parts({ blob }: SpooledBody, run: number, retry: Retry): KeptParts {
    return new KeptParts(this.blobs, blob, run, this.retentionMs, retry)
  }
}

/**
 * Returns the decoded bytes of a spooled body from a position on. Reads a coded body from its
 * beginning, because a coding cannot be entered midway.
 *
 * @param byte - position in the decoded body
 * @param open - opens the bytes as sent, from an offset on
 * @param memory - memory of the decoder. By default it is not counted
 */
export async function decodedFrom(
  { coding }: Pick<SpooledBody, 'coding'>, byte: number, limits: DecodeOptions,
  open: (start: number) => MaybePromise<AsyncIterable<Uint8Array>>, memory?: DecoderMemory,
): Promise<AsyncIterable<Uint8Array>> {
  if (coding === 'identity') return decodeBytes(await open(byte), coding, limits)
  const decoded = decodeBytes(await open(0), coding, limits, memory)
  return byte === 0 ? decoded : skipped(decoded, byte)
}

async function* skipped(
  source: AsyncIterable<Uint8Array>, count: number,
): AsyncGenerator<Uint8Array, void, undefined> {
  let left = count
  for await (const piece of source) {
    if (left < piece.byteLength) yield left === 0 ? piece : piece.subarray(left)
    left = Math.max(left - piece.byteLength, 0)
  }
}
