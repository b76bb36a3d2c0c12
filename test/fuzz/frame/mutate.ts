import fc from 'fast-check'

/** One small wrong: at some place some characters go, and others come. */
interface Edit {
  readonly at: number
  readonly kind: 'put' | 'cut' | 'swap' | 'double' | 'flip' | 'fill'
  readonly length: number
  readonly piece: string
}

const RAW = [
  '\0',
  '\t',
  '\n',
  '\r',
  '\r\n',
  ' ',
  '"',
  "'",
  '\\',
  ',',
  ';',
  ':',
  '=',
  '/',
  '*',
  '%',
  '%00',
  '%2f',
  '%',
  '-',
  '+',
  '.',
  '..',
  '0',
  '9',
  '1e9',
  '99999999999999999999',
  '(',
  ')',
  '<',
  '>',
  '[',
  ']',
  '{',
  '}',
  '@',
  '?',
  '#',
  '&',
  '\x7f',
  '\x80',
  'ÿ',
  'é',
  '€',
  '😀',
  '\ud800',
  '\ufeff',
  '__proto__',
  'constructor',
  'null',
]

/**
 * Texts that are nearly real: `examples` with a few wrongs done to them. What goes in is of
 * `pieces`, of the characters that
 * parsers trip over, or of another example. Shrinks to fewer wrongs.
 */
export function mutated(examples: readonly string[], pieces: readonly string[] = []): fc.Arbitrary<string> {
  const piece = fc.oneof(
    { weight: 4, arbitrary: fc.constantFrom(...RAW) },
    { weight: pieces.length === 0 ? 0 : 4, arbitrary: fc.constantFrom('', ...pieces) },
    { weight: 1, arbitrary: fc.constantFrom(...examples) },
    { weight: 1, arbitrary: fc.string({ unit: 'binary', maxLength: 4 }) },
  )
  const edit: fc.Arbitrary<Edit> = fc.record({
    at: fc.nat(10_000),
    kind: fc.constantFrom('put', 'cut', 'swap', 'double', 'flip', 'fill'),
    length: fc.integer({ min: 1, max: 6 }),
    piece,
  })
  return fc
    .tuple(fc.constantFrom(...examples), fc.array(edit, { maxLength: 5 }))
    .map(([text, edits]) => edits.reduce(edited, text))
}

function edited(text: string, { at, kind, length, piece }: Edit): string {
  const from = at % (text.length + 1)
  const to = Math.min(text.length, from + length)
  const [before, own, after] = [text.slice(0, from), text.slice(from, to), text.slice(to)]
  switch (kind) {
    case 'put': return before + piece + own + after
    case 'cut': return before + after
    case 'swap': return before + piece + after
    case 'double': return before + own + own + after
    case 'flip': return before + flipped(own, length) + after
    case 'fill': return before + piece.repeat(length * length * 4) + after
  }
}

function flipped(text: string, bit: number): string {
  return text === '' ? '' : String.fromCharCode(text.charCodeAt(0) ^ (1 << bit)) + text.slice(1)
}

/** The same as bytes, in which what is no UTF-8 comes too. */
export function mutatedBytes(examples: readonly string[], pieces: readonly string[] = []): fc.Arbitrary<Buffer> {
  const wrong = fc.tuple(
    fc.nat(10_000),
    fc.constantFrom(0x00, 0x22, 0x5c, 0x0a, 0x0d, 0x7f, 0x80, 0xbf, 0xc0, 0xc3, 0xe2, 0xed, 0xf0, 0xf4, 0xff),
  )
  return fc.tuple(mutated(examples, pieces), fc.array(wrong, { maxLength: 2 })).map(([text, wrongs]) => {
    const bytes = Buffer.from(text)
    for (const [at, byte] of wrongs) if (bytes.length > 0) bytes[at % bytes.length] = byte
    return bytes
  })
}

/** A text as a header field can bring it: Node lets no other characters through. */
export function fieldSafe(text: string): string {
  return text.replaceAll(/[^\t\x20-\x7e\x80-\xff]/g, '')
}
