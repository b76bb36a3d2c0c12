import * as zlib from 'node:zlib'
import { ZlibPump, type ZlibEngine } from './zlib-pump.js'

/** A piece of a body that is about to be coded. */
export interface Piece {
  readonly bytes: Uint8Array
  /** Nothing more is there just now: what was given so far has to reach the client. */
  readonly flush: boolean
}

type MakeZstd = (options: object) => ZlibEngine
const constants = zlib.constants as unknown as Readonly<Record<string, number>>
// Node 22.15 and later; the types are those of Node 20.
const makeZstd = (zlib as unknown as Readonly<Record<string, MakeZstd | undefined>>)['createZstdCompress']

/** The content codings that answers can have here, the ones that cost least first. */
export const RESPONSE_CODINGS: readonly string[] = [...(makeZstd ? ['zstd'] : []), 'gzip', 'br']

/** More than this waits for the engine before its source is asked for more. */
const WAITING_BYTES = 131_072
const CHUNK_BYTES = 65_536

/**
 * Codes pieces as they come, with backpressure; the source makes its next piece while the engine,
 * on another thread, works on the last one. What is not read on is closed.
 *
 * @param coding - one of `RESPONSE_CODINGS`
 */
export async function* encodePieces(source: AsyncIterable<Piece>, coding: string): AsyncGenerator<Uint8Array, void, undefined> {
  const pump = new ZlibPump(makeEngine(coding))
  const flushKind = (coding === 'gzip' ? constants['Z_SYNC_FLUSH'] : coding === 'br' ? constants['BROTLI_OPERATION_FLUSH'] : constants['ZSTD_e_flush']) as number
  try {
    for await (const { bytes, flush } of source) {
      pump.write(bytes)
      if (flush) pump.flush(flushKind)
      if (flush || pump.waiting > WAITING_BYTES) {
        for (let coded = await pump.next(); coded !== undefined; coded = await pump.next()) yield coded
      } else {
        for (let coded = pump.ready(); coded !== undefined; coded = pump.ready()) yield coded
      }
    }
    pump.end()
    for (let coded = await pump.next(); coded !== undefined; coded = await pump.next()) yield coded
  } finally {
    pump.close()
  }
}

/**
 * Levels that cost little: the highest ones are a hundred times as slow, for some percent of the
 * size.
 */
function makeEngine(coding: string): ZlibEngine {
  const chunkSize = CHUNK_BYTES
  if (coding === 'gzip') return zlib.createGzip({ chunkSize, level: 3 })
  if (coding === 'br') return zlib.createBrotliCompress({ chunkSize, params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 4 } })
  if (coding === 'zstd' && makeZstd) return makeZstd({ chunkSize })
  throw new TypeError(`encodePieces: ${coding} is not one of ${RESPONSE_CODINGS.join(', ')}`)
}
