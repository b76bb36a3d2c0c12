import { isAscii, isUtf8, transcode } from 'node:buffer'

/** Decodes bytes. Returns `undefined` if they are not UTF-8. */
export function textOf(bytes: Buffer): string | undefined {
  if (isAscii(bytes)) return bytes.toString('latin1')
  if (!isUtf8(bytes)) return undefined
  // Three times as fast as `toString` for long texts, and slower for short ones.
  if (bytes.length < 1024) return bytes.toString()
  return transcode(bytes, 'utf8', 'utf16le').toString('utf16le')
}

/** Parses JSON. Returns `undefined` if the text is not JSON. */
export function parsed(text: string): object | undefined {
  try {
    return JSON.parse(text) as object
  } catch {
    return undefined
  }
}

/** White space of JSON (RFC 8259 section 2), without the line feed, which ends a line. */
export function isSpace(code: number): boolean {
  return code === 0x20 || code === 0x0d || code === 0x09
}
