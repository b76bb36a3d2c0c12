import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { readRecords } from '../../../src/ndjson/line-reader.js'

async function* given(...chunks: string[]): AsyncGenerator<Uint8Array> {
  for (const chunk of chunks) yield Buffer.from(chunk)
}

/** How many lines each batch has. */
async function linesOf(...chunks: string[]): Promise<number[]> {
  const counts: number[] = []
  for await (const { records, failed } of readRecords(given(...chunks))) counts.push(records.length + failed)
  return counts
}

/** One byte more than the eight of all others: a line ends a byte behind each block. */
const FIRST = '{"a":10}\n'
const good = (count: number): string => '{"a":1}\n'.repeat(count)
const bad = (count: number): string => '{"a":1 \n'.repeat(count)

describe('a batch of lines', () => {
  test('has at most 64 KiB', async () => {
    assert.deepEqual(await linesOf(good(8192)), [8192])
    assert.deepEqual(await linesOf(FIRST + good(8191)), [8191, 1])
    assert.deepEqual(await linesOf(FIRST + good(24_575)), [8191, 8192, 8192, 1])
  })

  test('has at most 8 KiB after a batch with more than 256 bad lines, because bad lines take long', async () => {
    assert.deepEqual(await linesOf(FIRST + bad(256) + good(24_319)), [8191, 8192, 8192, 1])
    assert.deepEqual(await linesOf(FIRST + bad(257) + good(24_318)), [8191, 1024, 8192, 7169])
    assert.deepEqual(await linesOf(FIRST + bad(10_000)), [8191, 1024, 786])
  })

  test('exists only once a line that is not blank has ended', async () => {
    assert.deepEqual(await linesOf(), [])
    assert.deepEqual(await linesOf('', '\n', ' \n\r\n', ' '), [])
    assert.deepEqual(await linesOf('{"a":1}\n'), [1])
    assert.deepEqual(await linesOf('x\n', '\n'), [1])
    assert.deepEqual(await linesOf('{"a"', ':1}\n', 'x'), [1, 1])
  })
})

interface Seen { readonly id: number, readonly line: number }

/** The records with their lines, and the lines that are bad. */
async function seen(...chunks: Uint8Array[]): Promise<[Seen[], number[]]> {
  const [all, bad]: [Seen[], number[]] = [[], []]
  for await (const { records, lines, errors } of readRecords(
    (async function* () {
      yield* chunks
    })(),
    { maxErrors: Infinity },
  )) {
    records.forEach((record, at) => all.push({ id: (record as { id: number }).id, line: lines[at] as number }))
    bad.push(...errors.map(({ line }) => line))
  }
  return [all, bad]
}

describe('each line is read once', () => {
  test('even in a large chunk after many bad lines', async () => {
    const lines = Array.from({ length: 2000 }, (_, id) => `{"id":${id}}\n`)
    const [all] = await seen(Buffer.from('x\n'.repeat(300)), Buffer.from(lines.join('')))
    assert.deepEqual(all, lines.map((_, id) => ({ id, line: id + 301 })))
  })

  test('even if many lines are bad in a row, and for any division into chunks', async () => {
    const run = fc.record({ good: fc.boolean(), count: fc.integer({ min: 1, max: 3000 }) })
    const cuts = fc.array(fc.integer({ min: 1, max: 150_000 }), { maxLength: 6 })
    await fc.assert(fc.asyncProperty(fc.array(run, { maxLength: 8 }), cuts, async (runs, sizes) => {
      const [all, bad]: [Seen[], number[]] = [[], []]
      let text = ''
      let line = 0
      for (const { good: isGood, count } of runs) {
        for (let i = 0; i < count; i++) {
          line++
          if (isGood) all.push({ id: line * 7, line })
          else bad.push(line)
          text += isGood ? `{"id":${line * 7}}\n` : 'x\n'
        }
      }
      const chunks: Uint8Array[] = []
      let rest = Buffer.from(text)
      for (const size of sizes) {
        chunks.push(rest.subarray(0, size))
        rest = rest.subarray(size)
      }
      assert.deepEqual(await seen(...chunks, rest), [all, bad])
    }), { numRuns: 40 })
  })
})
