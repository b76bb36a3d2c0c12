/**
 * Characters that an extended parameter holds unencoded (RFC 8187 section 3.2.1), beside letters
 * and digits.
 */
const ATTRIBUTE_CHARS = new Set('!#$&+-.^_`|~')

/**
 * The value of Content-Disposition (RFC 6266). A name that is not plain ASCII comes twice: with `?`
 * in the place of what old clients can't read, and as UTF-8. Only the part behind the last slash or
 * backslash counts; controls are left out.
 */
export function contentDisposition(
  kind: 'inline' | 'attachment', name: string | undefined,
): string {
  const base = printable(name?.split(/[/\\]/).at(-1) ?? '').toWellFormed()
  if (base === '') return kind
  const plain = base.replaceAll(/[^\x20-\x7e]/gu, '?')
  // `%` in a quoted name is decoded by some clients and not by others.
  const quoted = `${kind}; filename="${plain.replaceAll('%', '_').replaceAll('"', '\\"')}"`
  return plain === base && !base.includes('%')
    ? quoted
    : `${quoted}; filename*=UTF-8''${extended(base)}`
}

function printable(text: string): string {
  return text.replaceAll(/\p{Cc}/gu, '')
}

function extended(text: string): string {
  let value = ''
  for (const byte of Buffer.from(text)) {
    const char = String.fromCharCode(byte)
    const plain = byte < 0x80 && (/[A-Za-z0-9]/.test(char) || ATTRIBUTE_CHARS.has(char))
    value += plain ? char : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`
  }
  return value
}
