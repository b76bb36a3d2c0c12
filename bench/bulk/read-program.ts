// Runs the readers of a large array in turn, on the same bytes in chunks of 64 KiB. Reports the CPU microseconds of each run.
import { Readable } from 'node:stream'
import parser from 'stream-json/parser.js'
import { streamArray } from 'stream-json/streamers/stream-array.js'
import { parseChunked } from '@discoveryjs/json-ext'
import { readElements } from '../../src/json-array/array-reader.js'
import { bytesOf } from './arrays.js'

const [kind, rounds] = process.argv.slice(2) as [string, string]
const bytes = bytesOf(kind)

function* chunksOf(): Generator<Buffer> {
  for (let at = 0; at < bytes.length; at += 65_536) yield bytes.subarray(at, at + 65_536)
}

async function* chunksAsync(): AsyncGenerator<Buffer> {
  yield* chunksOf()
}

const READERS: Readonly<Record<string, () => Promise<number> | number>> = {
  'whole body, JSON.parse': () => (JSON.parse(Buffer.concat([...chunksOf()]).toString()) as unknown[]).length,
  'readElements': async () => {
    let count = 0
    for await (const { items } of readElements(chunksAsync())) count += items.length
    return count
  },
  'json-ext': async () => (await parseChunked(chunksOf()) as unknown[]).length,
  "stream-json's StreamArray": async () => {
    let count = 0
    const stream = Readable.from(chunksOf(), { objectMode: false }).pipe(parser.asStream()).pipe(streamArray.asStream())
    await new Promise((resolve, reject) => { stream.on('data', () => { count++ }).on('end', resolve).on('error', reject) })
    return count
  },
}

const samples: Record<string, number[]> = {}
process.send?.({})
for (let round = -1; round < Number(rounds); round++) {
  for (const [name, reader] of Object.entries(READERS)) {
    const before = process.cpuUsage()
    const count = await reader()
    const { user, system } = process.cpuUsage(before)
    if (count < 10_000) throw new Error(`${name} read ${count} elements`)
    if (round >= 0) (samples[name] ??= []).push(user + system)
  }
}
process.send?.({ samples, bytes: bytes.length })
process.disconnect?.()
