import assert from 'node:assert/strict'
import fc from 'fast-check'
import { LineReader as ClientReader, type LineFault } from '../../src/client/ndjson.js'
import { isTooDeep, hasUnsafeKey } from '../../src/http/body/json.js'
import { LineReader } from '../../src/ndjson/line-reader.js'
import { linear } from './frame/linear.js'
import { mutatedBytes } from './frame/mutate.js'

const EXAMPLES = [
  '{"a":1}\n{"b":"ä"}\n',
  '{"a":1}\r\n\r\n{"b":[1,{"c":"\\n"}]}',
  '\ufeff{"a":1}\n',
  ' {"a":1} \n\t{"b":2}\t\n',
  '{"a":1},{"b":2}\n{"a":[{"x":1}\n{"y":2}]}\n',
  '{"__proto__":1}\n{"constructor":{"prototype":1}}\n{"\\u005f_proto__":2}\n',
  '[1]\n"x"\n1\nnull\n{}\n',
  `{"long":"${'x'.repeat(60)}"}\n{"z":1}`,
  `${'{"a":'.repeat(520)}1${'}'.repeat(520)}\n{"b":1}\n`,
]
const PIECES = ['\n', '\r\n', '{"a":1}', '{', '}', '"', '\\u', '\\', '\ufeff', ',', ':', '[', ']', 'é', '😀']
const MAX_LINE_BYTES = 40

type Said = { readonly line: number; readonly record?: unknown; readonly code?: string }

/** Line by line, each on its own. */
function reference(bytes: Buffer, maxLineBytes: number): Said[] {
  const said: Said[] = []
  let start = 0
  for (let line = 1; start < bytes.length; line++) {
    const lf = bytes.indexOf(0x0a, start)
    const end = lf === -1 ? bytes.length : lf
    const raw = bytes.subarray(start, end)
    start = end + 1
    const code = judge(raw, line, maxLineBytes)
    if (typeof code === 'string') said.push({ line, code })
    else if (code !== undefined) said.push({ line, record: code.record })
  }
  return said
}

function judge(raw: Buffer, line: number, maxLineBytes: number): string | { readonly record: unknown } | undefined {
  if (raw.length > maxLineBytes) return 'line_too_long'
  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(raw)
  } catch {
    return 'line_not_utf8'
  }
  const trimmed = (line === 1 ? text.replace(/^\ufeff/, '') : text).replace(/^[ \t\r]+/, '').replace(/[ \t\r]+$/, '')
  if (trimmed === '') return undefined
  try {
    const record: unknown = JSON.parse(trimmed)
    if (!trimmed.startsWith('{')) return 'line_not_object'
    return isTooDeep(record) ? 'line_too_deep' : hasUnsafeKey(record) ? 'line_unsafe_key' : { record }
  } catch {
    return 'line_malformed'
  }
}

function read(bytes: Buffer, maxLineBytes: number, cuts: readonly number[]): Said[] {
  const reader = new LineReader({ maxLineBytes, maxErrors: Infinity })
  const said: Said[] = []
  const take = ({ records, lines, errors, failed }: ReturnType<LineReader['read']>): void => {
    assert.equal(failed, errors.length)
    assert.equal(records.length, lines.length)
    said.push(
      ...records.map((record, at) => ({ line: lines[at] as number, record })),
      ...errors.map(({ line, code }) => ({ line, code })),
    )
  }
  for (let at = 0, turn = 0; at < bytes.length; turn++) {
    const size = cuts[turn % cuts.length] as number
    // A copy that is spoiled afterwards: the reader may keep none of it.
    const chunk = Buffer.from(bytes.subarray(at, at + size))
    take(reader.read(chunk))
    chunk.fill(0x7b)
    at += size
  }
  take(reader.end())
  assert.equal(reader.byteCount, bytes.length)
  return said.sort((a, b) => a.line - b.line)
}

const sizes = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 4 })

export const rules = {
  'says of each line what it says alone, however it is cut': fc.property(
    mutatedBytes(EXAMPLES, PIECES),
    sizes,
    fc.constantFrom(MAX_LINE_BYTES, 1_048_576),
    (bytes, cuts, most) => {
      assert.deepEqual(read(bytes, most, cuts), reference(bytes, most))
    },
  ),
  'the reader of the client gives the same records, however they are cut': fc.property(
    mutatedBytes(EXAMPLES, PIECES),
    sizes,
    (bytes, cuts) => {
      const all = (pieces: readonly Buffer[]): unknown[] => {
        const faults: LineFault[] = []
        const reader = new ClientReader(1000, (fault) => {
          faults.push(fault)
        })
        return [...pieces.flatMap((piece) => [...reader.read(piece)]), reader.end(), faults]
      }
      const pieces: Buffer[] = []
      for (let at = 0, turn = 0; at < bytes.length; turn++) {
        pieces.push(Buffer.from(bytes.subarray(at, at + (cuts[turn % cuts.length] as number))))
        at += cuts[turn % cuts.length] as number
      }
      assert.deepEqual(all(pieces), all([bytes]))
    },
  ),
  'takes linear time': linear([...PIECES, '{"a":1}\n', 'x\n', '{"}\n', '[', '"a"', '{"a":'], (text) => {
    const reader = new LineReader({ maxLineBytes: 20_000 })
    const bytes = Buffer.from(text)
    for (let at = 0; at < bytes.length; at += 100) reader.read(bytes.subarray(at, at + 100))
    reader.end()
  }),
}
