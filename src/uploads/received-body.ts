import { ContentDigest } from '../http/fields/digests.js'
import { httpError } from '../http/errors.js'
import type { BodySource, RequestHeaders } from '../http/exchange.js'
import { Gathered } from '../runtime/text.js'
import type { Blobs } from '../stores/blobs.js'
import { partKey, type UploadState } from './state.js'

/** The bytes of a received upload, as the body of one request. */
export class ReceivedBody implements BodySource {
  readonly parsed = undefined

  constructor(
    private readonly blobs: Blobs, private readonly id: string,
    private readonly upload: UploadState,
  ) {}

  async bytes(limit: number): Promise<Uint8Array | undefined> {
    if (this.upload.offset > limit) return undefined
    const gathered = new Gathered()
    for await (const chunk of this.stream()) gathered.add(chunk)
    return gathered.bytes
  }

  /** @throws {HttpError} `gone`: a part has been removed by somebody else. */
  async* stream(): AsyncGenerator<Uint8Array, void, undefined> {
    for (const [name] of this.upload.parts) {
      const part = await this.blobs.open(partKey(this.id, name))
      if (part === undefined) {
        throw httpError('gone', { message: 'What was uploaded is no longer here.' })
      }
      yield* part
    }
  }

  /**
   * Reads all bytes and compares them with `Repr-Digest` (RFC 9530 section 3), if the request has
   * one.
   *
   * @throws {HttpError} `digest_mismatch`, `invalid_header`
   */
  async check(headers: RequestHeaders): Promise<void> {
    const digest = ContentDigest.of(headers, 'repr-digest')
    if (digest === undefined) return
    for await (const _ of digest.checked(this.stream()));
  }
}
