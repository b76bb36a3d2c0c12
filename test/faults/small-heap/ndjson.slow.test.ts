import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { get, type IncomingMessage } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import * as zlib from 'node:zlib'
import { SmallProcess } from '../kit/small-process.js'
import { repeat, upload, whilePinging, type Result } from './upload.js'

/** `npm run test:large` sends 2 GiB each way. */
const SIZE = process.env['LONGHAUL_LARGE'] === undefined ? 128 << 20 : 2 ** 31
const MIB = 1 << 20

/** Reads an answer, resting now and then, and counts its lines. */
async function download(port: number, path: string): Promise<{ lines: number; bytes: number }> {
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    get({ port, host: '127.0.0.1', path, agent: false }, resolve).on('error', reject)
  })
  let lines = 0
  let bytes = 0
  let rests = 0
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length
    for (let at = chunk.indexOf(10); at !== -1; at = chunk.indexOf(10, at + 1)) lines++
    if (bytes > rests * 16 * MIB) {
      rests++
      await sleep(20)
    }
  }
  return { lines, bytes }
}

describe('a process with a heap of 64 MiB', () => {
  let server: SmallProcess
  before(async () => { server = await SmallProcess.start('ndjson-server.ts') })
  after(async () => { await server.stop() })

  const summary = ({ body }: Result): { total: number; succeeded: number; failed: number } => (
    (JSON.parse(body) as { summary: { total: number; succeeded: number; failed: number } }).summary
  )
  const staysSmall = async (): Promise<void> => {
    const { maxRss } = await server.memory()
    assert.ok(maxRss < 400 * MIB, `${Math.round(maxRss / MIB)} MiB`)
  }
  const lines = Buffer.from(
    Array.from(
      { length: 1000 },
      (_, id) => `${JSON.stringify({ id, name: 'Somebody', email: 'somebody@example.com' })}\n`,
    ).join(''),
  )

  test('SPEC 4.9: reads an upload much larger than its heap, with a slow consumer', async () => {
    const result = await whilePinging(server.port, upload(server.port, repeat(lines, SIZE)))
    assert.equal(result.status, 200)
    assert.equal(summary(result).succeeded, Math.ceil(SIZE / lines.length) * 1000)
    await staysSmall()
  })
  for (const path of ['/sync', '/async']) {
    test(`sends a download much larger than its heap to a slow client: ${path}`, async () => {
      const result = await whilePinging(server.port, download(server.port, `${path}?bytes=${SIZE}`))
      assert.equal(result.lines, Math.ceil(SIZE / 100))
      assert.ok(result.bytes > SIZE * 0.9)
      await staysSmall()
    })
  }
  test('rejects a body of 1 MB that decompresses to 1 GB', async () => {
    const bomb = zlib.gzipSync(Buffer.alloc(32 * MIB, '{"a":1}\n'), { level: 9 })
    const members = Array.from({ length: 32 }, () => bomb)
    const result = await whilePinging(server.port, upload(server.port, members, { 'content-encoding': 'gzip' }))
    assert.equal(result.status, 413)
    assert.equal((JSON.parse(result.body) as { code: string }).code, 'body_too_large')
    await staysSmall()
  })
  test('skips a line of 200 MB, and accepts the lines around it', async () => {
    function* pieces(): Generator<Uint8Array> {
      yield Buffer.from('{"a":1}\n{"long":"')
      yield* repeat(Buffer.alloc(65_536, 0x61), 200_000_000)
      yield Buffer.from('"}\n{"b":2}\n')
    }
    const result = await whilePinging(server.port, upload(server.port, pieces()))
    assert.deepEqual([result.status, summary(result)], [200, { total: 3, succeeded: 2, failed: 1 }])
    await staysSmall()
  })
  test('skips a million bad lines', async () => {
    for (const [line, count] of [['x\n', 1_000_000], ['{"}\n', 200_000]] as const) {
      const result = await whilePinging(server.port, upload(server.port, [Buffer.from(line.repeat(count))]))
      assert.deepEqual(summary(result), { total: count, succeeded: 0, failed: count })
      await staysSmall()
    }
  })
  test('rejects or skips JSON that is nested a million deep', async () => {
    const deep = '['.repeat(1_000_000)
    const object = `${'{"a":'.repeat(1_000_000)}1${'}'.repeat(1_000_000)}`
    const result = await whilePinging(
      server.port,
      upload(server.port, [Buffer.from(`{"ok":1}\n${deep}\n{"a":${deep}\n${object}\n`)]),
    )
    assert.equal(result.status, 200)
    assert.equal(summary(result).total, 4)
    await staysSmall()
    assert.ok(server.alive)
  })
})
