// Each reader counts the good records of 64 KiB chunks.
import { createInterface } from 'node:readline'
import { Readable } from 'node:stream'
import { parseChunked } from '@discoveryjs/json-ext'
import ndjson from 'ndjson'
import split2 from 'split2'
import jsonlParser from 'stream-json/jsonl/parser.js'
import { LineReader, readRecords } from 'longhaul/ndjson'

/** Reads all bytes and returns the number of good records. */
export type Reader = (bytes: Buffer) => Promise<number> | number

function* chunksOf(bytes: Buffer): Generator<Buffer> {
  for (let at = 0; at < bytes.length; at += 65_536) yield bytes.subarray(at, at + 65_536)
}

async function* chunksAsync(bytes: Buffer): AsyncGenerator<Buffer> {
  yield* chunksOf(bytes)
}

function countParsed(lines: readonly string[]): number {
  let good = 0
  for (const line of lines) {
    if (line === '') continue
    try {
      JSON.parse(line)
      good++
    } catch {
      // A bad line.
    }
  }
  return good
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line)
  } catch {
    return undefined
  }
}

async function countObjects(stream: NodeJS.ReadableStream): Promise<number> {
  let good = 0
  await new Promise((resolve, reject) => { stream.on('data', () => { good++ }).on('end', resolve).on('error', reject) })
  return good
}

/** A block reader without any rule: no limits, no line numbers, no depth, any key, any bytes. */
function countBlocks(bytes: Buffer): number {
  const { stackTraceLimit } = Error
  Error.stackTraceLimit = 0
  let good = 0
  let held: Buffer = Buffer.alloc(0)
  const take = (block: Buffer): void => {
    const text = block.toString()
    const records: unknown[] = []
    for (let start = 0, end = 0; start < text.length; start = end + 1) {
      end = text.indexOf('\n', start)
      if (end === -1) end = text.length
      try {
        records.push(JSON.parse(text.slice(start, end)))
      } catch {
        // A bad line.
      }
    }
    good += records.length
  }
  for (const chunk of chunksOf(bytes)) {
    const end = chunk.lastIndexOf(10) + 1
    take(Buffer.concat([held, chunk.subarray(0, end)]))
    held = chunk.subarray(end)
  }
  take(held)
  Error.stackTraceLimit = stackTraceLimit
  return good
}

/** Readers that stop at a bad line are left out there. */
export const NO_BAD_LINES = new Set(["stream-json's JSONL", 'json-ext'])

export const READERS: Readonly<Record<string, Reader>> = {
  'whole buffer, split, JSON.parse': (bytes) => countParsed(bytes.toString().split('\n')),
  'blocks, with no rule': countBlocks,
  'LineReader': (bytes) => {
    const reader = new LineReader()
    let good = 0
    for (const chunk of chunksOf(bytes)) good += reader.read(chunk).records.length
    return good + reader.end().records.length
  },
  'readRecords': async (bytes) => {
    let good = 0
    for await (const { records } of readRecords(chunksAsync(bytes))) good += records.length
    return good
  },
  'split2': (bytes) => countObjects(Readable.from(chunksOf(bytes), { objectMode: false }).pipe(split2(parsed))),
  'ndjson': (bytes) => countObjects(Readable.from(chunksOf(bytes), { objectMode: false }).pipe(ndjson.parse({ strict: false }))),
  'node:readline': async (bytes) => {
    const lines = createInterface({ input: Readable.from(chunksOf(bytes), { objectMode: false }), crlfDelay: Infinity })
    let good = 0
    lines.on('line', (line) => { if (parsed(line) !== undefined) good++ })
    await new Promise((resolve) => { lines.on('close', resolve) })
    return good
  },
  "stream-json's JSONL": (bytes) => countObjects(Readable.from(chunksOf(bytes), { objectMode: false }).pipe(jsonlParser.asStream())),
  'json-ext': async (bytes) => {
    const all = await parseChunked(chunksOf(bytes), { mode: 'jsonl' }) as unknown[]
    return all.length
  },
}
