// Bodies in a content coding, spoiled.
import assert from 'node:assert/strict'
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync } from 'node:zlib'
import * as zlib from 'node:zlib'
import fc from 'fast-check'
import { decodeBytes, REQUEST_CODINGS, requestCoding } from '../../src/http/body/decode.js'
import { ZstdFrames } from '../../src/http/body/zlib.js'
import { mutated } from './frame/mutate.js'
import { outcome, refusal } from './frame/rule.js'

const TEXT = Buffer.from('{"a":1}\n'.repeat(200))
const zstd = (zlib as unknown as Readonly<Record<string, ((bytes: Buffer) => Buffer) | undefined>>)['zstdCompressSync']
const BODIES: readonly (readonly [string, Buffer])[] = [
  ['gzip', gzipSync(TEXT)],
  ['gzip', Buffer.concat([gzipSync(TEXT), gzipSync('x')])],
  ['deflate', deflateSync(TEXT)],
  ['deflate', deflateRawSync(TEXT)],
  ['br', brotliCompressSync(TEXT)],
  ...(zstd
    ? ([
      ['zstd', zstd(TEXT)],
      ['zstd', Buffer.concat([zstd(TEXT), zstd(Buffer.from('y'))])],
    ] as const)
    : []),
]
const BOUNDS = { maxBodyBytes: 100_000, maxDecodedBytes: 1_000_000 }

const spoiled = fc
  .tuple(
    fc.constantFrom(...BODIES),
    fc.array(fc.tuple(fc.nat(5000), fc.nat(255), fc.constantFrom('set', 'cut', 'put', 'end')), { maxLength: 3 }),
  )
  .map(([[coding, body], wrongs]) => {
    let bytes = Buffer.from(body)
    for (const [at, byte, kind] of wrongs) {
      const place = at % (bytes.length + 1)
      if (kind === 'set' && place < bytes.length) bytes[place] = byte
      else if (kind === 'cut') bytes = Buffer.concat([bytes.subarray(0, place), bytes.subarray(place + 1 + (byte % 8))])
      else if (kind === 'put')
        bytes = Buffer.concat([bytes.subarray(0, place), Buffer.alloc(1 + (byte % 4), byte), bytes.subarray(place)])
      else if (kind === 'end') bytes = bytes.subarray(0, place)
    }
    return [coding, bytes] as const
  })

async function decoded(
  coding: string,
  bytes: Buffer,
  size: number,
): Promise<{ readonly bytes: Buffer } | { readonly code: string }> {
  async function* source(): AsyncGenerator<Uint8Array> {
    for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
  }
  const pieces: Uint8Array[] = []
  try {
    for await (const piece of decodeBytes(source(), coding, BOUNDS)) pieces.push(piece)
    return { bytes: Buffer.concat(pieces) }
  } catch (error) {
    return { code: refusal(error).code }
  }
}

function pushAll(frames: ZstdFrames, text: Uint8Array): void {
  for (let rest = text; rest.length > 0;) rest = rest.subarray(frames.push(rest))
}

export const rules = {
  'a coded body is read or refused, however it is cut': fc.asyncProperty(
    spoiled,
    fc.integer({ min: 1, max: 200 }),
    async ([coding, bytes], size) => {
      const whole = await decoded(coding, bytes, bytes.length || 1)
      const cut = await decoded(coding, bytes, size)
      assert.deepEqual(cut, whole)
      if ('code' in whole)
        assert.match(whole.code, /^(?:malformed_coding|incomplete_body|body_too_large|unsupported_content_coding)$/)
      else assert.ok(whole.bytes.length <= BOUNDS.maxDecodedBytes)
    },
  ),
  'a body that is cut short is never taken for a whole one': fc.asyncProperty(
    fc.constantFrom(...BODIES),
    fc.nat(),
    async ([coding, body], at) => {
      const told = await decoded(coding, body.subarray(0, at % body.length), 64)
      // Behind a whole first member, or frame, there is nothing to miss.
      if ('bytes' in told) assert.ok(body !== BODIES[0]?.[1] && told.bytes.equals(TEXT), coding)
    },
  ),
  'frames end at the same places, however they are cut': fc.property(
    spoiled,
    fc.integer({ min: 1, max: 9 }),
    ([, bytes], size) => {
      const whole = new ZstdFrames()
      pushAll(whole, bytes)
      const cut = new ZstdFrames()
      for (let at = 0; at < bytes.length; at += size) pushAll(cut, bytes.subarray(at, at + size))
      assert.equal(cut.complete, whole.complete)
    },
  ),
  'the coding is one that is undone, or refused': fc.property(
    mutated(['gzip', 'GZIP', 'x-gzip', 'gzip, br', 'identity', '', 'br ', 'zstd']),
    (text) => {
      const told = outcome(() => requestCoding({ 'content-encoding': text }))
      if ('refused' in told) assert.equal(told.refused.code, 'unsupported_content_coding')
      else assert.ok(['identity', ...REQUEST_CODINGS].includes(told.value))
    },
  ),
}
