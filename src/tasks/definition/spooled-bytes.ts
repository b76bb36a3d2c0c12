import { decodeBytes, type DecodeOptions } from '../../http/body/decode.js'
import type { DecoderMemory } from '../../http/body/counted-body.js'
import type { MaybePromise } from '../../runtime/maybe-promise.js'
import type { SpooledBody } from './spool.js'

/**
 * Returns the decoded bytes of a spooled body from a position on. Reads a coded body from its
 * beginning, because a coding cannot be entered midway.
 *
 * @param byte - position in the decoded body
 * @param open - opens the bytes as sent, from an offset on
 * @param memory - memory of the decoder. By default it is not counted
 */
export async function decodedFrom(
  { coding }: Pick<SpooledBody, 'coding'>, byte: number, limits: DecodeOptions,
  open: (start: number) => MaybePromise<AsyncIterable<Uint8Array>>, memory?: DecoderMemory,
): Promise<AsyncIterable<Uint8Array>> {
  if (coding === 'identity') return decodeBytes(await open(byte), coding, limits)
  const decoded = decodeBytes(await open(0), coding, limits, memory)
  return byte === 0 ? decoded : skipped(decoded, byte)
}

async function* skipped(
  source: AsyncIterable<Uint8Array>, count: number,
): AsyncGenerator<Uint8Array, void, undefined> {
  let left = count
  for await (const piece of source) {
    if (left < piece.byteLength) yield left === 0 ? piece : piece.subarray(left)
    left = Math.max(left - piece.byteLength, 0)
  }
}
