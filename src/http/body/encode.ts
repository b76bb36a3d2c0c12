import * as zlib from 'node:zlib'
import { ZlibPump, type ZlibEngine, zlibConstants, zstd } from './zlib.js'

export interface Piece {
  readonly bytes: Uint8Array
  /** The source has nothing more right now: all output so far must reach the client. */
  readonly flush: boolean
}

const { createZstdCompress: makeZstd } = zstd

export const RESPONSE_CODINGS: readonly string[] = [...(makeZstd ? ['zstd'] : []), 'gzip', 'br']

/** If more bytes wait for the engine, the source is not read until the engine has caught up. */
const WAITING_BYTES = 131_072
const CHUNK_BYTES = 65_536

/** Encodes pieces as they arrive, with backpressure. Closes the source if reading stops early. */
export async function* encodePieces(
  source: AsyncIterable<Piece>, coding: string,
): AsyncGenerator<Uint8Array, void, undefined> {
  const pump = new ZlibPump(makeEngine(coding))
  const flushKind = zlibConstants[FLUSH_KINDS[coding] as string] as number
  try {
    for await (const { bytes, flush } of source) {
      pump.write(bytes)
      if (flush) pump.flush(flushKind)
      if (flush || pump.waiting > WAITING_BYTES) {
        yield* allOf(pump)
      } else {
        for (let coded = pump.ready(); coded !== undefined; coded = pump.ready()) yield coded
      }
    }
    pump.end()
    yield* allOf(pump)
  } finally {
    pump.close()
  }
}

async function* allOf(pump: ZlibPump): AsyncGenerator<Uint8Array, void, undefined> {
  for (;;) {
    const coded = await pump.next()
    if (coded === undefined) return
    yield coded
  }
}

const FLUSH_KINDS: Readonly<Record<string, string>> = {
  gzip: 'Z_SYNC_FLUSH', br: 'BROTLI_OPERATION_FLUSH', zstd: 'ZSTD_e_flush',
}

/**
 * Creates a fast encoder. The highest levels would take 100 times as long to save some percent of
 * the size.
 */
function makeEngine(coding: string): ZlibEngine {
  const chunkSize = CHUNK_BYTES
  if (coding === 'gzip') return zlib.createGzip({ chunkSize, level: 3 })
  if (coding === 'br') {
    const params = { [zlib.constants.BROTLI_PARAM_QUALITY]: 4 }
    return zlib.createBrotliCompress({ chunkSize, params })
  }
  if (coding === 'zstd' && makeZstd) return makeZstd({ chunkSize })
  throw new TypeError(`encodePieces: ${coding} is not one of ${RESPONSE_CODINGS.join(', ')}`)
}
