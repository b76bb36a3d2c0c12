import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, test } from 'node:test'
import { promisify } from 'node:util'
import * as zlib from 'node:zlib'
import { decodeBytes } from '../../../../src/http/body/decode.js'
import { encodePieces, RESPONSE_CODINGS, type Piece } from '../../../../src/http/body/encode.js'

const deflate = promisify(zlib.deflate)

/** Bytes that cannot be made smaller, the same ones each time. */
function noise(bytes: number, seed: string): Buffer {
  const blocks = Array.from({ length: Math.ceil(bytes / 64) }, (_, at) =>
    createHash('sha512').update(`${seed} ${at}`).digest(),
  )
  return Buffer.concat(blocks).subarray(0, bytes)
}

async function read(source: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const all: Uint8Array[] = []
  for await (const piece of source) all.push(piece)
  return Buffer.concat(all)
}

describe('encoding of pieces', () => {
  // Several of them fill a chunk of the engine's, and one that waits for the engine is not enough
  // to make the source wait too.
  const pieces = Array.from({ length: 24 }, (_, at) => noise(30_000, `piece ${at}`))
  const work = noise(100_000, 'work')

  /**
   * Goes on each time when another engine has done more than the one that codes: what is made in
   * between is there by then.
   */
  async function* slowly(): AsyncGenerator<Piece> {
    for (const bytes of pieces) {
      yield { bytes, flush: false }
      await deflate(work)
    }
  }
  async function* quickly(): AsyncGenerator<Piece> {
    for (const bytes of pieces) yield { bytes, flush: false }
  }

  for (const coding of RESPONSE_CODINGS) {
    for (const source of [slowly, quickly]) {
      test(`loses and reorders nothing in ${coding}, as they come ${source.name}`, async () => {
        const decoded = await read(decodeBytes(encodePieces(source(), coding), coding, { maxBodyBytes: 1 << 30 }))
        assert.ok(decoded.equals(Buffer.concat(pieces)))
      })
    }
  }

  test('fails as an error of the application for another coding', async () => {
    for (const coding of ['compress', 'zstd'].filter((name) => !RESPONSE_CODINGS.includes(name))) {
      await assert.rejects(read(encodePieces(quickly(), coding)), {
        name: 'TypeError',
        message: `encodePieces: ${coding} is not one of ${RESPONSE_CODINGS.join(', ')}`,
      })
    }
  })
})
