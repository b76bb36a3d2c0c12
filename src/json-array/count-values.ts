import { BACKSLASH, COMMA, OPEN_BRACE, OPEN_BRACKET, QUOTE } from '../runtime/text.js'

const COLON = 0x3a
/** Deeper values are not counted. */
const MAX_DEPTH = 512

const SPACES = tableOf(' \t\n\r')
const DIGITS = tableOf('0123456789')
const HEX = tableOf('0123456789abcdefABCDEF')
/** Characters that end an escape sequence after the backslash. */
const ESCAPES = tableOf('"\\/bfnrt')
/** Characters in a string that need a look: its end, a backslash and control characters. */
const STOPS = tableOf('"\\').fill(1, 0, 0x20)

/**
 * Counts the values of `bytes` from one index to another, which are separated by commas. Accepts
 * only what `JSON.parse` accepts in brackets, if the bytes are UTF-8.
 *
 * The first reading of a large body needs no values. This takes a third of the time of `JSON.parse`
 * and creates nothing, which is a sixth of a synchronous request with 100,000 items.
 * @returns -1 if there may be no values, or a fault, or values that are nested too deeply
 */
export function countValues(bytes: Uint8Array, from: number, to: number): number {
  const opened = new Uint8Array(MAX_DEPTH)
  let depth = 0
  let count = 0
  let at = from
  for (;;) {
    at = skipSpace(bytes, at)
    const first = bytes[at] as number
    if (first === OPEN_BRACE || first === OPEN_BRACKET) {
      if (depth === MAX_DEPTH) return -1
      at = skipSpace(bytes, at + 1)
      if (bytes[at] !== closing(first)) {
        opened[depth++] = first
        if (first === OPEN_BRACE) at = skipKey(bytes, at, to)
        if (at === -1) return -1
        continue
      }
      at++
    } else {
      at = skipScalar(bytes, at, to)
      if (at === -1) return -1
    }
    for (;;) {
      at = skipSpace(bytes, at)
      if (depth === 0) count++
      if (at >= to) return depth === 0 && at === to ? count : -1
      const next = bytes[at++]
      const container = depth === 0 ? OPEN_BRACKET : opened[depth - 1] as number
      if (next === COMMA) {
        if (container === OPEN_BRACE) at = skipKey(bytes, skipSpace(bytes, at), to)
        if (at === -1) return -1
        break
      }
      if (depth === 0 || next !== closing(container)) return -1
      depth--
    }
  }
}

/** Returns the closing bracket or brace, which is two after the opening one in ASCII. */
function closing(open: number): number {
  return open + 2
}

/**
 * Each function below skips one part of the text. It returns the index after this part, or -1 if
 * the part is not there.
 */
function skipKey(bytes: Uint8Array, from: number, to: number): number {
  if (bytes[from] !== QUOTE) return -1
  const end = skipString(bytes, from + 1, to)
  if (end === -1) return -1
  const at = skipSpace(bytes, end)
  return bytes[at] === COLON ? at + 1 : -1
}

function skipScalar(bytes: Uint8Array, from: number, to: number): number {
  switch (bytes[from]) {
    case QUOTE: return skipString(bytes, from + 1, to)
    case 0x74: return skipWord(bytes, from, 'true')
    case 0x66: return skipWord(bytes, from, 'false')
    case 0x6e: return skipWord(bytes, from, 'null')
    default: return skipNumber(bytes, from)
  }
}

function skipString(bytes: Uint8Array, from: number, to: number): number {
  let at = from
  while (at < to) {
    const byte = bytes[at++] as number
    if (STOPS[byte] === 0) continue
    if (byte === QUOTE) return at
    if (byte !== BACKSLASH) return -1
    const escape = bytes[at++] as number
    if (ESCAPES[escape] === 1) continue
    if (escape !== 0x75) return -1
    for (const end = at + 4; at < end; at++) if (HEX[bytes[at] as number] !== 1) return -1
  }
  return -1
}

function skipWord(bytes: Uint8Array, from: number, word: string): number {
  for (let at = 0; at < word.length; at++) {
    if (bytes[from + at] !== word.charCodeAt(at)) return -1
  }
  return from + word.length
}

function skipNumber(bytes: Uint8Array, from: number): number {
  let at = bytes[from] === 0x2d ? from + 1 : from
  at = bytes[at] === 0x30 ? at + 1 : skipDigits(bytes, at)
  if (at !== -1 && bytes[at] === 0x2e) at = skipDigits(bytes, at + 1)
  if (at === -1 || ((bytes[at] as number) | 0x20) !== 0x65) return at
  const sign = bytes[at + 1]
  return skipDigits(bytes, sign === 0x2b || sign === 0x2d ? at + 2 : at + 1)
}

function skipDigits(bytes: Uint8Array, from: number): number {
  let at = from
  while (DIGITS[bytes[at] as number] === 1) at++
  return at === from ? -1 : at
}

function skipSpace(bytes: Uint8Array, from: number): number {
  let at = from
  while (SPACES[bytes[at] as number] === 1) at++
  return at
}

function tableOf(characters: string): Uint8Array {
  const table = new Uint8Array(256)
  for (const character of characters) table[character.charCodeAt(0)] = 1
  return table
}
