// Memory and time of decoders: windows that are too large, many open decoders, many tiny frames.
import assert from 'node:assert/strict'
import { createHook } from 'node:async_hooks'
import { randomBytes } from 'node:crypto'
import { describe, test } from 'node:test'
import * as zlib from 'node:zlib'
import { decodeBytes } from '../../../../src/http/body/decode.js'
import { isHttpError, type HttpError } from '../../../../src/http/errors.js'
import { fakeRequest } from '../../kit/request.js'

type Encode = (bytes: Uint8Array, options?: object) => Buffer
const zstd = (zlib as unknown as Record<string, Encode | undefined>)['zstdCompressSync']
const wide = { maxBodyBytes: 1 << 30, maxDecodedBytes: 1 << 30, maxRatio: 1e6 }
const MIB = 1 << 20

async function* only(bytes: Uint8Array): AsyncGenerator<Uint8Array> { yield bytes }

async function sizeOf(source: AsyncIterable<Uint8Array>): Promise<number> {
  let size = 0
  for await (const piece of source) size += piece.byteLength
  return size
}

const PLAIN = randomBytes(5 * MIB)
const brotli = (lgwin: number): Buffer => zlib.brotliCompressSync(PLAIN, {
  params: { [zlib.constants.BROTLI_PARAM_LGWIN]: lgwin, [zlib.constants.BROTLI_PARAM_QUALITY]: 2 },
})

describe('a decoder with a window', () => {
  test('reads brotli windows from 1 KiB to 4 MiB, and gives a larger window a 415 with the limit', async () => {
    for (let lgwin = 10; lgwin <= 24; lgwin++) {
      const read = sizeOf(decodeBytes(only(brotli(lgwin)), 'br', wide))
      if (lgwin <= 22) assert.equal(await read, 5 * MIB, String(lgwin))
      else {
        await assert.rejects(read, (error) => {
          assert.ok(isHttpError(error))
          assert.deepEqual([error.status, error.code], [415, 'unsupported_content_coding'])
          assert.match(
            error.message,
            new RegExp(`br window .* ${2 ** lgwin} bytes.* 4194304 bytes \\(window log 22\\)`),
          )
          return true
        })
      }
    }
  })

  test('rejects the large format of brotli as malformed', async () => {
    await assert.rejects(sizeOf(decodeBytes(only(Uint8Array.of(0b10001, 30, 0)), 'br', wide)), {
      code: 'malformed_coding',
    })
  })

  // The frames are made by hand, so this runs where Node has no zstd, which refuses the coding by itself.
  test('reads zstd windows up to 8 MiB, and gives a larger window a 415', async () => {
    /** A frame with a window, or of a single segment, with one block of a byte that is repeated. */
    const frame = (descriptor: number, header: readonly number[]): Uint8Array => (
      Uint8Array.of(0x28, 0xb5, 0x2f, 0xfd, descriptor, ...header, 0x0b, 0, 0, 0x61)
    )
    const large = [frame(0, [(14 << 3)]), frame(0, [(13 << 3) + 1]), frame(0xa0, [1, 0, 0x80, 0])]
    for (const bytes of large) {
      await assert.rejects(sizeOf(decodeBytes(only(bytes), 'zstd', wide)), (error) => {
        assert.deepEqual([(error as HttpError).status, (error as HttpError).code], [415, 'unsupported_content_coding'])
        assert.match((error as Error).message, /8388608 bytes \(window log 23\)/)
        return true
      })
    }
    const small = sizeOf(decodeBytes(only(frame(0, [13 << 3])), 'zstd', wide))
    if (zstd) assert.equal(await small, 1)
    else await assert.rejects(small, { name: 'TypeError' })
  })
})

describe('open decoders', () => {
  /** Begins to send a body, and leaves its decoder open. */
  async function open(context: object, coding: string, bytes: Uint8Array): Promise<() => Promise<unknown>> {
    let end: () => void = () => undefined
    async function* slow(): AsyncGenerator<Uint8Array> {
      yield bytes.subarray(0, bytes.length >> 1)
      await new Promise<void>((resolve) => { end = resolve })
    }
    const request = { ...fakeRequest({ headers: { 'content-encoding': coding } }), context }
    const pieces = decodeBytes(slow(), coding, wide, request)
    await pieces.next()
    return () => {
      const closed = pieces.return(undefined)
      end()
      return closed
    }
  }

  test('are limited for each caller with a 429 and for all callers with a 503, and a closed decoder frees its place', async () => {
    const bytes = brotli(22)
    const opened: (() => Promise<unknown>)[] = []
    const counts: number[] = []
    let last: HttpError | undefined
    for (let caller = 0; last?.status !== 503; caller++) {
      assert.ok(caller < 10)
      const context = { principal: { subject: `user ${caller}` } }
      let count = 0
      for (last = undefined; last === undefined; count++) {
        try {
          opened.push(await open(context, 'br', bytes))
        } catch (error) {
          assert.ok(isHttpError(error), String(error))
          last = error
        }
      }
      counts.push(count - 1)
    }
    assert.deepEqual([last.code, last.headers['retry-after']], ['overloaded', '1'])
    assert.ok(counts.length >= 4, `${counts.length} callers`)
    assert.ok(counts[0] !== undefined && counts[0] >= 4 && counts[0] <= 15, String(counts))
    assert.ok(opened.length <= 60, `${opened.length} decoders`)
    await opened.pop()?.()
    opened.push(await open({ principal: { subject: 'another' } }, 'br', bytes))
    await Promise.all(opened.map((close) => close()))
  })

  test('get a 429 with Retry-After for one caller, but hundreds of gzip bodies are accepted', async () => {
    const bytes = zlib.gzipSync(PLAIN.subarray(0, MIB))
    const context = { principal: { subject: 'one' } }
    const opened = await Promise.all(Array.from({ length: 100 }, () => open(context, 'gzip', bytes)))
    await Promise.all(opened.map((close) => close()))
    const full = await Promise.allSettled(Array.from({ length: 20 }, () => open(context, 'br', brotli(22))))
    const refused = full.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason as HttpError] : []))
    assert.deepEqual(
      new Set(refused.map(({ code, headers }) => `${code} ${headers['retry-after']}`)),
      new Set(['too_many_requests 1']),
    )
    for (const outcome of full) if (outcome.status === 'fulfilled') await outcome.value()
  })

  test('leave nothing open when they end, fail or are closed', async () => {
    const request = {
      ...fakeRequest({ headers: { 'content-encoding': 'br' }, body: brotli(22) }),
      context: { principal: { subject: 'steady' } },
    }
    const sizeOf = async (limits: typeof wide) => {
      let size = 0
      for await (const piece of decodeBytes(request.body.stream(), 'br', limits, request)) size += piece.byteLength
      return size
    }
    for (let at = 0; at < 100; at++) {
      if (at % 2 === 0) assert.equal(await sizeOf(wide), 5 * MIB)
      else await assert.rejects(sizeOf({ ...wide, maxDecodedBytes: MIB }), { code: 'body_too_large' })
    }
  })
})

test('many tiny frames of zstd are decoded by one decoder', { timeout: 60_000 }, async () => {
  const tiny = Uint8Array.of(0x28, 0xb5, 0x2f, 0xfd, 0, 0x58, 0x09, 0, 0, 0x61)
  const bytes = Buffer.concat(Array<Uint8Array>(8800).fill(tiny))
  if (!zstd) {
    await assert.rejects(sizeOf(decodeBytes(only(bytes), 'zstd', wide)), { name: 'TypeError' })
    return
  }
  let engines = 0
  const hook = createHook({ init: (_, type) => { if (type === 'ZLIB') engines++ } }).enable()
  assert.equal(await sizeOf(decodeBytes(only(bytes), 'zstd', wide)), 8800)
  hook.disable()
  assert.equal(engines, 1)
})
