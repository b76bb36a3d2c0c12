import { encodePieces, RESPONSE_CODINGS, type Piece } from '../http/body/encode.js'

/** A content coding that answers can have. */
export type ContentCoding = 'gzip' | 'br' | 'zstd'

const CODINGS: readonly string[] = ['gzip', 'br', 'zstd'] satisfies ContentCoding[]

/**
 * Those of `codings` that this Node has: zstd is not in all of them.
 * @throws {TypeError} for a coding that is none
 */
export function knownCodings(codings: readonly ContentCoding[]): readonly ContentCoding[] {
  for (const coding of codings) {
    if (!CODINGS.includes(coding)) {
      throw new TypeError(`codings: ${JSON.stringify(coding)} is none of ${CODINGS.join(', ')}`)
    }
  }
  return codings.filter((coding) => RESPONSE_CODINGS.includes(coding))
}

/**
 * `content` in a coding, at the speed of its reader. A failure of `content` comes through; it is
 * closed when the reader leaves.
 */
export function coded(
  content: AsyncIterable<Uint8Array>, coding: ContentCoding,
): AsyncGenerator<Uint8Array, void, undefined> {
  return encodePieces(pieces(content), coding)
}

async function* pieces(content: AsyncIterable<Uint8Array>): AsyncGenerator<Piece, void, undefined> {
  for await (const bytes of content) yield { bytes, flush: false }
}

const TEXT = /^(?:text\/|application\/(?:json|xml|javascript|wasm|x-ndjson|graphql|sql|toml|yaml|rtf)\b|image\/(?:svg|bmp)|[a-z]+\/[^;]*\+(?:json|xml)\b)/i

/** Returns whether a media type is compressible: text, JSON, XML and the like. */
export function isCompressible(type: string): boolean {
  return TEXT.test(type)
}

/** The tag of a representation in a coding: other bytes, another tag. */
export function codedEtag(etag: string | undefined, coding: ContentCoding): string | undefined {
  return etag === undefined ? undefined : `${etag.slice(0, -1)}-${coding}"`
}
