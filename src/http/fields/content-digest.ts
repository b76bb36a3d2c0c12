import { createHash, timingSafeEqual, type Hash } from 'node:crypto'
import { httpError } from '../errors.js'
import type { RequestHeaders } from '../exchange.js'
import { FieldReader, fieldText } from './reader.js'

/** A digest that the body must have. */
interface Expected {
  readonly algorithm: 'sha256' | 'sha512'
  readonly digest: Buffer
}

const ALGORITHMS = new Map([
  ['sha-256', { algorithm: 'sha256', bytes: 32 }], ['sha-512', { algorithm: 'sha512', bytes: 64 }],
] as const)
/** A byte sequence (RFC 9651 section 3.3.5), and parameters, which have no meaning here. */
const MEMBER = /^[ \t]*(sha-256|sha-512)(?:=:([A-Za-z0-9+/]*={0,2}):)?[ \t]*(?:;.*)?$/

/**
 * Compares the bytes of a body, as sent, with its `Content-Digest` (RFC 9530 section 2), or the
 * bytes of a representation with `Repr-Digest` (section 3).
 */
export class ContentDigest {
  readonly #expected: readonly Expected[]
  readonly #hashes: readonly Hash[]

  private constructor(expected: readonly Expected[]) {
    this.#expected = expected
    this.#hashes = expected.map(({ algorithm }) => createHash(algorithm))
  }

  /**
   * Returns the check for one body, `undefined` if the field is absent or names neither `sha-256`
   * nor `sha-512`. Ignores other algorithms.
   *
   * @throws {HttpError} 400 `invalid_header`: the value of `sha-256` or `sha-512` is not a digest
   * of that algorithm.
   */
  static of(
    headers: RequestHeaders, name: 'content-digest' | 'repr-digest' = 'content-digest',
  ): ContentDigest | undefined {
    const field = headers[name]
    if (field === undefined) return undefined
    const shown = name === 'content-digest' ? 'Content-Digest' : 'Repr-Digest'
    const expected = readField(fieldText(field), shown)
    return expected.length === 0 ? undefined : new ContentDigest(expected)
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
    for (const hash of this.#hashes) hash.update(bytes)
  }

  #end(): void {
    this.#expected.forEach(({ digest }, at) => {
      const hash = this.#hashes[at] as Hash
      if (!timingSafeEqual(hash.digest(), digest)) throw httpError('digest_mismatch')
    })
  }
}

/**
 * Reads the known members of the dictionary. The last one of a name wins (RFC 9651 section 3.2).
 */
function readField(text: string, name: string): Expected[] {
  const found = new Map<string, Expected>()
  const reader = new FieldReader(text)
  while (!reader.done) {
    const start = reader.at
    reader.skipItem()
    const item = text.slice(start, reader.at).replace(/,$/, '')
    if (!/^[ \t]*sha-(?:256|512)(?![\w.*-])/.test(item)) continue
    const [, algorithm, base64 = ''] = MEMBER.exec(item) ?? []
    const known = ALGORITHMS.get(algorithm as 'sha-256')
    const digest = Buffer.from(base64, 'base64')
    if (known === undefined || digest.length !== known.bytes) {
      const message = `${name} has no digest where it names sha-256 or sha-512.`
      throw httpError('invalid_header', { message })
    }
    found.set(known.algorithm, { algorithm: known.algorithm, digest })
  }
  return [...found.values()]
}
