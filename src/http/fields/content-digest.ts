import { createHash, timingSafeEqual, type Hash } from 'node:crypto'
import { httpError } from '../errors.js'
import type { RequestHeaders } from '../exchange.js'
import { isCoded } from './content-encoding.js'
import { DIGEST_ALGORITHMS, parseDigests, type DigestAlgorithm } from './digests.js'

/** A digest that the body must have, and the hash of what was read. */
interface Expected {
  readonly digest: Buffer
  readonly hash: Hash
}

/**
 * Compares the bytes of a body, as sent, with its `Content-Digest` (RFC 9530 section 2), or the
 * bytes of a representation with `Repr-Digest` (section 3).
 */
export class ContentDigest {
  readonly #expected: readonly Expected[]

  private constructor(expected: readonly Expected[]) {
    this.#expected = expected
  }

  /**
   * Returns the check for one body, `undefined` if the field is absent or names neither `sha-256`
   * nor `sha-512`. Ignores other algorithms.
   *
   * @throws {HttpError} 400 `invalid_header`: the field is malformed, or the value of `sha-256` or
   * `sha-512` is not a digest of that algorithm.
   */
  static of(
    headers: RequestHeaders, name: 'content-digest' | 'repr-digest' = 'content-digest',
  ): ContentDigest | undefined {
    const field = headers[name]
    if (field === undefined) return undefined
    const digests = parseDigests(field)
    if (digests === undefined) {
      const shown = name === 'content-digest' ? 'Content-Digest' : 'Repr-Digest'
      const reason = 'is malformed, or has no digest where it names sha-256 or sha-512.'
      throw httpError('invalid_header', { message: `${shown} ${reason}` })
    }
    const expected = Object.entries(digests).map(([algorithm, digest]): Expected => ({
      digest: Buffer.from(digest, 'base64'),
      hash: createHash(DIGEST_ALGORITHMS[algorithm as DigestAlgorithm].hash),
    }))
    return expected.length === 0 ? undefined : new ContentDigest(expected)
  }

  /**
   * Returns the check for bytes that the host's parser has read. With a content coding they are not
   * the bytes that were sent, so they are not checked.
   *
   * @throws {HttpError} as `of` does
   */
  static ofParsed(headers: RequestHeaders): ContentDigest | undefined {
    return isCoded(headers) ? undefined : ContentDigest.of(headers)
  }

  /**
   * Checks a whole body, and returns it.
   *
   * @throws {HttpError} 400 `digest_mismatch`
   */
  check(bytes: Uint8Array): Uint8Array {
    this.#add(bytes)
    this.#end()
    return bytes
  }

  /** Passes a body on as it arrives. Rejects with 400 `digest_mismatch` at its end. */
  async* checked(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
    for await (const piece of pieces) {
      this.#add(piece)
      yield piece
    }
    this.#end()
  }

  #add(bytes: Uint8Array): void {
    for (const { hash } of this.#expected) hash.update(bytes)
  }

  #end(): void {
    for (const { digest, hash } of this.#expected) {
      if (!timingSafeEqual(hash.digest(), digest)) throw httpError('digest_mismatch')
    }
  }
}
