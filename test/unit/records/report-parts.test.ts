// The parts of a report: what runs of a task write, list, continue and leave.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { MemoryBlobs } from '../../../adapters/memory/index.js'
import { START, type RecordPosition } from '../../../src/records/position.js'
import { reportGone, StoredReport } from '../../../src/records/stored-report.js'
import { deleteTails, findTail } from '../../../src/records/tails.js'
import {
  deleteParts, partBytes, partKeys, readParts, renewParts, withPart, type PartList,
} from '../../../src/stores/parts.js'

const BODY = 'body'

function reportOf(blobs: MemoryBlobs, run: number): StoredReport {
  return new StoredReport({
    blobs, blob: BODY, run, ttlMs: 60_000, retry: (work) => work(), maxInlineBytes: 0, onError: () => undefined,
  })
}

/** Adds texts to a report, each as a part. */
async function addParts(report: StoredReport, ...texts: readonly string[]): Promise<void> {
  for (const text of texts) {
    report.add(text)
    await report.flush(true)
  }
}

const positionOf = (report: StoredReport): RecordPosition => ({ ...START, length: 1, report: report.textWith('') })

async function textOf(blobs: MemoryBlobs, list: PartList, start?: number): Promise<string> {
  let text = ''
  for await (const piece of readParts(blobs, partKeys(BODY, list), reportGone, start))
    text += Buffer.from(piece).toString()
  return text
}

async function nothing(): Promise<AsyncIterable<Uint8Array>> {
  return (async function* () { yield Buffer.from('x') })()
}

describe('the parts of a report', () => {
  test('continue after the saved list, even if an earlier run has written parts behind it', async () => {
    const blobs = new MemoryBlobs()
    const first = reportOf(blobs, 1)
    await addParts(first, 'one', 'two')
    const saved = positionOf(first)
    await addParts(first, 'lost')
    const third = reportOf(blobs, 3)
    await third.continueFrom(saved)
    await addParts(third, 'thr\u00e9\u00e9', 'four')
    assert.deepEqual(third.list, [[1, 0, 2, 8], [3, 0, 2, 13]])
    assert.equal(await textOf(blobs, third.list), 'one\ntwo\nthr\u00e9\u00e9\nfour\n')
  })

  test('stay unchanged in a newer run when an earlier run writes late', async () => {
    const blobs = new MemoryBlobs()
    const late = reportOf(blobs, 1)
    await addParts(late, 'one')
    const next = reportOf(blobs, 2)
    await next.continueFrom(positionOf(late))
    await addParts(next, 'two')
    await addParts(late, 'late')
    assert.equal(await textOf(blobs, next.list), 'one\ntwo\n')
  })

  test('are replaced or deleted when the report restarts', async () => {
    const blobs = new MemoryBlobs()
    const report = reportOf(blobs, 1)
    await addParts(report, 'rolled back', 'rolled back')
    report.restart()
    await addParts(report, 'again')
    await report.clean()
    assert.equal(await textOf(blobs, report.list), 'again\n')
    assert.equal(blobs.usage().blobs, 1)
  })

  test('are lost together if one part cannot be written, and deleted once the list is saved', async () => {
    const blobs = new MemoryBlobs()
    const report = reportOf(blobs, 1)
    await addParts(report, 'one')
    blobs.put = () => Promise.reject(new Error('The disk is full'))
    await addParts(report, 'two')
    assert.deepEqual([report.isWhole, report.list, report.textWith('').parts], [false, [], null])
    assert.equal(blobs.usage().blobs, 1)
    await report.clean()
    assert.equal(blobs.usage().blobs, 0)
  })

  test('can be read from any byte', async () => {
    const blobs = new MemoryBlobs()
    const report = reportOf(blobs, 1)
    await addParts(report, 'one', 'two', 'three')
    const text = 'one\ntwo\nthree\n'
    for (let start = 0; start <= text.length; start++)
      assert.equal(await textOf(blobs, report.list, start), text.slice(start))
  })

  test('end the reading with the error gone if one part has expired', async () => {
    const blobs = new MemoryBlobs()
    const report = reportOf(blobs, 1)
    await addParts(report, 'one')
    await deleteParts(blobs, BODY, report.list)
    await assert.rejects(textOf(blobs, report.list), { code: 'gone' })
  })

  test('are renewed, and no other parts', async () => {
    const blobs = new MemoryBlobs()
    const report = reportOf(blobs, 1)
    await addParts(report, 'one', 'two')
    const renewed: string[] = []
    const renew = blobs.renew.bind(blobs)
    blobs.renew = async (key, ttlMs) => {
      renewed.push(`${key} ${ttlMs}`)
      return renew(key, ttlMs)
    }
    await renewParts(blobs, BODY, report.list, 5000)
    assert.deepEqual(renewed, ['body/1/0 5000', 'body/1/1 5000'])
  })

  test('have ranges of writers, with the number of bytes of each', () => {
    let list: PartList = []
    for (const [writer, part, bytes] of [
      [1, 0, 5],
      [1, 1, 6],
      [3, 0, 7],
      [3, 2, 8],
    ] as const)
      list = withPart(list, writer, part, bytes)
    assert.deepEqual(list, [[1, 0, 2, 11], [3, 0, 1, 7], [3, 2, 3, 8]])
    assert.equal(partBytes(list), 26)
    assert.deepEqual(partKeys('a', list), ['a/1/0', 'a/1/1', 'a/3/0', 'a/3/2'])
  })
})

describe('the tail of a run', () => {
  test('is found behind the list, unless a later run has parts in the list', async () => {
    const blobs = new MemoryBlobs()
    await blobs.put('body/2/3', await nothing(), { ttlMs: 60_000 })
    await blobs.put('body/2/4', await nothing(), { ttlMs: 60_000 })
    assert.deepEqual(await findTail(blobs, BODY, [[2, 0, 3, 30]], 4), [[2, 3, 5, 2]])
    assert.deepEqual(await findTail(blobs, BODY, [[2, 0, 3, 30], [3, 0, 1, 1]], 4), [])
    await blobs.put('body/4/0', await nothing(), { ttlMs: 60_000 })
    assert.deepEqual(await findTail(blobs, BODY, [[2, 0, 3, 30]], 4), [[4, 0, 1, 1]])
  })

  test('is deleted, and the list stays', async () => {
    const blobs = new MemoryBlobs()
    for (const key of ['body/1/0', 'body/2/0', 'body/2/1', 'body/2/2'])
      await blobs.put(key, await nothing(), { ttlMs: 60_000 })
    await deleteTails(blobs, BODY, [[2, 0, 1, 1]], 2)
    assert.equal(blobs.usage().blobs, 1)
    assert.ok(await blobs.stat('body/2/0'))
  })
})
