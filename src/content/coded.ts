import { pipeline, Readable, type Transform } from 'node:stream'
import * as zlib from 'node:zlib'

/** A content coding that answers can have. */
export type ContentCoding = 'gzip' | 'br' | 'deflate' | 'zstd'

type MakeCoder = () => Transform

const createZstd = (zlib as { readonly createZstdCompress?: MakeCoder }).createZstdCompress

/** Levels at which a server keeps up with a network: the default of brotli is a hundred times slower. */
const CODERS: Readonly<Record<ContentCoding, MakeCoder | undefined>> = {
  gzip: () => zlib.createGzip({ level: 3 }),
  deflate: () => zlib.createDeflate({ level: 3 }),
  br: () => zlib.createBrotliCompress({ params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 4 } }),
  zstd: createZstd === undefined ? undefined : () => createZstd(),
}

/**
 * Those of `codings` that this Node has: zstd is not in all of them.
 * @throws {TypeError} for a coding that is none
 */
export function knownCodings(codings: readonly ContentCoding[]): readonly ContentCoding[] {
  for (const coding of codings) {
    if (!Object.hasOwn(CODERS, coding)) throw new TypeError(`codings: ${JSON.stringify(coding)} is none of ${Object.keys(CODERS).join(', ')}`)
  }
  return codings.filter((coding) => CODERS[coding] !== undefined)
}

/** `content` in a coding, at the speed of its reader. A failure of `content` comes through; it is closed when the reader leaves. */
export async function* coded(content: AsyncIterable<Uint8Array>, coding: ContentCoding): AsyncGenerator<Uint8Array, void, undefined> {
  const input = Readable.from(content, { objectMode: false })
  const coder = (CODERS[coding] as MakeCoder)()
  // Its failure is seen by whoever reads the coder; a reader that leaves destroys the coder, and that the input.
  pipeline(input, coder, ignore)
  for await (const chunk of coder) yield chunk as Uint8Array
}

const TEXT = /^(?:text\/|application\/(?:json|xml|javascript|wasm|x-ndjson|graphql|sql|toml|yaml|rtf)\b|image\/(?:svg|bmp)|[a-z]+\/[^;]*\+(?:json|xml)\b)/i

/** Whether a media type is of a kind that shrinks: text, JSON, XML and the like. */
export function isCompressible(type: string): boolean {
  return TEXT.test(type)
}

/** The tag of a representation in a coding: other bytes, another tag. */
export function codedEtag(etag: string | undefined, coding: ContentCoding): string | undefined {
  return etag === undefined ? undefined : `${etag.slice(0, -1)}-${coding}"`
}

function ignore(): void {}
