import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { readRecords } from '../../../src/ndjson/read-records.js'

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

describe('a batch', () => {
  test('is of 64 KiB at the most', async () => {
    assert.deepEqual(await linesOf(good(8192)), [8192])
    assert.deepEqual(await linesOf(FIRST + good(8191)), [8191, 1])
    assert.deepEqual(await linesOf(FIRST + good(24_575)), [8191, 8192, 8192, 1])
  })

  test('is of 8 KiB behind one with more than 256 bad lines, since those take long', async () => {
    assert.deepEqual(await linesOf(FIRST + bad(256) + good(24_319)), [8191, 8192, 8192, 1])
    assert.deepEqual(await linesOf(FIRST + bad(257) + good(24_318)), [8191, 1024, 8192, 7169])
    assert.deepEqual(await linesOf(FIRST + bad(10_000)), [8191, 1024, 786])
  })

  test('is there only where lines with something in them have ended', async () => {
    assert.deepEqual(await linesOf(), [])
    assert.deepEqual(await linesOf('', '\n', ' \n\r\n', ' '), [])
    assert.deepEqual(await linesOf('{"a":1}\n'), [1])
    assert.deepEqual(await linesOf('x\n', '\n'), [1])
    assert.deepEqual(await linesOf('{"a"', ':1}\n', 'x'), [1, 1])
  })
})
