import { Buffer } from 'node:buffer'

/**
 * Returns a copy of a text that shares no memory with it. V8 keeps slices as references to the
 * original: an id of 30 characters, cut from a body of 5 kB, keeps all 5 kB alive. Flattening a
 * concatenation of two parts always makes a copy, in about 60 ns.
 */
export function ownText(text: string): string {
  const copy = text.slice(0, 1) + text.slice(1)
  Buffer.byteLength(copy)
  return copy
}

/**
 * Returns the maximum memory of a text in bytes: one for each character of ASCII text, else two for
 * each UTF-16 code unit.
 */
export function textBytes(text: string): number {
  const length = text.length
  return Buffer.byteLength(text) === length ? length : 2 * length
}
