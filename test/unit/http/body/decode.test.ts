import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import * as zlib from 'node:zlib'
import { decodeBytes, REQUEST_CODINGS, requestCoding } from '../../../../src/http/body/decode.js'
import { isHttpError } from '../../../../src/http/errors.js'

const TEXT = 'The same text, whatever its coding: äöü 日本語. '.repeat(2)
const wide = { maxBodyBytes: 1 << 30 }

type Encode = (bytes: Uint8Array) => Buffer
const zstd = (zlib as unknown as Record<string, Encode | undefined>)['zstdCompressSync']

const ENCODERS: Record<string, Encode> = {
  'gzip': zlib.gzipSync,
  'deflate': zlib.deflateSync,
  'br': (bytes) => zlib.brotliCompressSync(bytes, { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 4 } }),
  ...zstd && { zstd },
}

async function* pieces(bytes: Uint8Array, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}

async function* parts(...all: Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* all
}

async function read(source: AsyncIterable<Uint8Array>): Promise<string> {
  const all: Uint8Array[] = []
  for await (const piece of source) all.push(piece)
  return Buffer.concat(all).toString()
}

const failsWith =
  (code: string) =>
    (error: unknown): boolean =>
      isHttpError(error) && error.code === code && error.cause === undefined

describe('decoding a body', () => {
  test('is tested for each coding that is offered', () => {
    assert.deepEqual(Object.keys(ENCODERS).sort(), [...REQUEST_CODINGS].sort())
  })
  for (const [coding, encode] of Object.entries(ENCODERS)) {
    const coded = encode(Buffer.from(TEXT))

    test(`works for ${coding}, cut at every place`, async () => {
      for (let cut = 0; cut <= coded.length; cut++) {
        assert.equal(await read(decodeBytes(parts(coded.subarray(0, cut), coded.subarray(cut)), coding, wide)), TEXT)
      }
    })
    test(`works for ${coding}, one byte at a time`, async () => {
      assert.equal(await read(decodeBytes(pieces(coded, 1), coding, wide)), TEXT)
    })
    test(`fails for ${coding}, truncated at every place`, async () => {
      for (let end = 0; end < coded.length; end++) {
        await assert.rejects(
          read(decodeBytes(parts(coded.subarray(0, end)), coding, wide)),
          failsWith('incomplete_body'),
          `at ${end}`,
        )
      }
    })
    test(`fails for ${coding} with bytes after its end, in the same chunk or in another`, async () => {
      for (const junk of [Buffer.from('junk, a line of it'), Buffer.alloc(30)]) {
        await assert.rejects(
          read(decodeBytes(parts(Buffer.concat([coded, junk])), coding, wide)),
          failsWith('malformed_coding'),
        )
        await assert.rejects(read(decodeBytes(parts(coded, junk), coding, wide)), failsWith('malformed_coding'))
      }
    })
    test(`fails for ${coding} that is not valid at all`, async () => {
      await assert.rejects(
        read(decodeBytes(parts(Buffer.from('xid":1}\n'.repeat(9))), coding, wide)),
        failsWith('malformed_coding'),
      )
    })
  }

  for (const coding of ['deflate', 'br']) {
    test(`fails for ${coding} with a second member`, async () => {
      const encode = ENCODERS[coding] as Encode
      const [one, more] = [encode(Buffer.from('one ')), encode(Buffer.from('two '))]
      await assert.rejects(
        read(decodeBytes(parts(Buffer.concat([one, more])), coding, wide)),
        failsWith('malformed_coding'),
      )
      await assert.rejects(read(decodeBytes(parts(one, more), coding, wide)), failsWith('malformed_coding'))
    })
  }

  for (const coding of ['gzip', 'zstd'].filter((name) => name in ENCODERS)) {
    test(`works for ${coding} of several members, cut at every place`, async () => {
      const encode = ENCODERS[coding] as Encode
      const coded = Buffer.concat(['one ', 'two ', 'three'].map((text) => encode(Buffer.from(text))))
      for (let cut = 0; cut <= coded.length; cut++) {
        assert.equal(
          await read(decodeBytes(parts(coded.subarray(0, cut), coded.subarray(cut)), coding, wide)),
          'one two three',
        )
      }
    })
  }
  test('fails as an error of the application for an unknown coding', async () => {
    for (const coding of ['compress', 'zstd'].filter((name) => !(name in ENCODERS))) {
      await assert.rejects(read(decodeBytes(parts(Buffer.from(TEXT)), coding, wide)), {
        name: 'TypeError',
        message: `decodeBytes: ${coding} is not one of ${REQUEST_CODINGS.join(', ')}`,
      })
    }
  })
  test('works for deflate without the wrapper of zlib', async () => {
    const coded = zlib.deflateRawSync(TEXT)
    assert.equal(await read(decodeBytes(pieces(coded, 7), 'deflate', wide)), TEXT)
  })
  test('keeps the order of a large body through many chunks', async () => {
    const large = Buffer.from(Array.from({ length: 400_000 }, (_, at) => `${at * 7919}\n`).join(''))
    for (const [coding, encode] of Object.entries(ENCODERS)) {
      assert.ok((await read(decodeBytes(pieces(encode(large), 65_536), coding, wide))) === large.toString(), coding)
    }
  })
})

describe('the decoder of a body', () => {
  const bomb = zlib.gzipSync(Buffer.alloc(64 << 20))

  test('limits the bytes as sent', async () => {
    const coded = zlib.gzipSync(TEXT)
    await assert.rejects(
      read(decodeBytes(pieces(coded, 10), 'gzip', { maxBodyBytes: coded.length - 1, maxDecodedBytes: 1e6 })),
      failsWith('body_too_large'),
    )
    assert.equal(
      await read(decodeBytes(pieces(coded, 10), 'gzip', { maxBodyBytes: coded.length, maxDecodedBytes: 1e6 })),
      TEXT,
    )
  })
  test('limits the decoded bytes', async () => {
    const size = Buffer.byteLength(TEXT)
    const coded = zlib.gzipSync(TEXT)
    await assert.rejects(
      read(decodeBytes(parts(coded), 'gzip', { maxBodyBytes: 1e6, maxDecodedBytes: size - 1 })),
      failsWith('body_too_large'),
    )
    assert.equal(await read(decodeBytes(parts(coded), 'gzip', { maxBodyBytes: 1e6, maxDecodedBytes: size })), TEXT)
    await assert.rejects(
      read(decodeBytes(parts(Buffer.from(TEXT)), 'identity', { maxBodyBytes: 1e6, maxDecodedBytes: size - 1 })),
      failsWith('body_too_large'),
    )
  })
  test('limits the ratio above 1 MiB, and stops decompressing there', async () => {
    let got = 0
    await assert.rejects(async () => {
      for await (const piece of decodeBytes(parts(bomb), 'gzip', wide)) got += piece.byteLength
    }, failsWith('body_too_large'))
    assert.ok(got <= bomb.length * 250 && got > 1 << 20, String(got))
    got = 0
    for await (const piece of decodeBytes(parts(bomb), 'gzip', { ...wide, maxRatio: 2000 })) got += piece.byteLength
    assert.equal(got, 64 << 20)
  })
  test('counts the ratio only above 1 MiB, and accepts a ratio equal to the limit', async () => {
    const zeros = (bytes: number): AsyncGenerator<Uint8Array> => parts(zlib.gzipSync(Buffer.alloc(bytes)))
    assert.equal((await read(decodeBytes(zeros(1 << 20), 'gzip', wide))).length, 1 << 20)
    await assert.rejects(read(decodeBytes(zeros((1 << 20) + 1), 'gzip', wide)), failsWith('body_too_large'))
    assert.equal(
      (await read(decodeBytes(parts(Buffer.alloc(2 << 20)), 'identity', { ...wide, maxRatio: 1 }))).length,
      2 << 20,
    )
  })
  test('closes the source when its reader stops, even within a chunk', async () => {
    let closed = false
    async function* source(): AsyncGenerator<Uint8Array> {
      try {
        yield bomb
        yield bomb
      } finally {
        closed = true
      }
    }
    for await (const piece of decodeBytes(source(), 'gzip', wide)) {
      assert.ok(piece.byteLength > 0)
      break
    }
    assert.ok(closed)
  })
  test('rejects with the error of a source that fails', async () => {
    async function* source(): AsyncGenerator<Uint8Array> {
      yield zlib.gzipSync(TEXT).subarray(0, 50)
      throw new Error('cut')
    }
    await assert.rejects(read(decodeBytes(source(), 'gzip', wide)), { message: 'cut' })
  })
})

describe('the coding of a request body', () => {
  test('is recognised in any case and as x-gzip, and other codings get a 415 that lists the accepted ones', () => {
    assert.equal(requestCoding({}), 'identity')
    assert.equal(requestCoding({ 'content-encoding': 'Identity' }), 'identity')
    assert.equal(requestCoding({ 'content-encoding': 'X-GZip' }), 'gzip')
    for (const field of ['compress', 'gzip, gzip', 'gzip;q=1']) {
      assert.throws(() => requestCoding({ 'content-encoding': field }), (error: unknown) => (
        isHttpError(error) && error.status === 415 && error.headers['accept-encoding'] === REQUEST_CODINGS.join(', ')
      ))
    }
  })
})
