// Uploads that continue: what is held between two commits has a limit, whatever a client sends.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Ingest, type Resumption } from '../../../src/ndjson/upload-run.js'
import { START, type UploadPosition } from '../../../src/ndjson/upload-position.js'
import { UploadReport } from '../../../src/ndjson/index.js'

const MIB = 1_048_576
const CONTEXT = {
  signal: new AbortController().signal, owner: undefined, context: undefined, taskId: undefined,
}

/** Reads a body. Returns the positions that were committed, and the most bytes that waited for one. */
async function read(line: string, bytes: number, maxLines?: number) {
  const positions: UploadPosition[] = []
  const report = new UploadReport(100)
  let sent = 0
  let waiting = 0
  async function* body(): AsyncGenerator<Uint8Array> {
    const chunk = Buffer.from(line.repeat(16_384 / line.length))
    for (; sent < bytes; sent += chunk.byteLength) {
      waiting = Math.max(waiting, sent - (positions.at(-1)?.byte ?? 0))
      yield chunk
    }
  }
  const resumption: Resumption = {
    from: START, commit: (position) => Promise.resolve(positions.push(position)).then(() => ({ stored: 0, parts: [] })),
  }
  const options = { write: () => undefined, ...maxLines !== undefined && { maxLines } }
  const ingest = new Ingest(options, report, CONTEXT, false, resumption)
  for await (const _ of ingest.run(body()));
  return { positions, report, waiting }
}

describe('an upload that continues', () => {
  test('commits its position after each MiB of blank lines', async () => {
    const { positions, waiting } = await read('\n', 16 * MIB)
    assert.ok(positions.length >= 14, `${positions.length} commits`)
    assert.ok(waiting <= 3 * MIB, `${waiting} bytes waited for a commit`)
    const last = positions.at(-1)
    assert.equal(last?.lines, last?.byte)
  })

  test('counts blank lines toward maxLines while they arrive', async () => {
    await assert.rejects(read('\n', 4 * MIB, 1000), { code: 'body_too_large' })
  })

  test('counts every bad line, and keeps few of them', async () => {
    const { report, waiting } = await read('x\n', 4 * MIB)
    assert.deepEqual(report.summary, { total: 2 * MIB, succeeded: 0, failed: 2 * MIB })
    assert.equal(report.errors.length, 100)
    assert.deepEqual(report.errors.map(({ line }) => line), Array.from({ length: 100 }, (_, at) => at + 1))
    assert.ok(waiting <= 3 * MIB, `${waiting} bytes waited for a commit`)
  })
})
