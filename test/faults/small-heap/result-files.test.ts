import assert from 'node:assert/strict'
import { createHash, randomInt } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { get, type IncomingMessage } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { SmallProcess } from '../kit/small-process.js'

const MIB = 1 << 20
const isLarge = process.env['LONGHAUL_LARGE'] !== undefined
/** `npm run test:large` writes more than 32 bits can count. */
const MEBIBYTES = isLarge ? 10 * 1024 : 200
const USERS = isLarge ? 20_000_000 : 500_000

interface FileBody { readonly url: string, readonly size: number, readonly digest: string }

describe('a large result file of a process with a heap of 64 MiB', () => {
  let folder = ''
  let server: SmallProcess
  let atStart = 0
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'longhaul-'))
    server = await SmallProcess.start('result-files-server.ts', { env: { LONGHAUL_TEST_FOLDER: folder } })
    atStart = (await server.memory()).maxRss
  })
  after(async () => {
    await server.stop()
    await rm(folder, { recursive: true, force: true })
  })

  /** Runs a task to its end, and returns its file. */
  async function written(path: string, input: object): Promise<FileBody> {
    const origin = `http://127.0.0.1:${server.port}`
    const accepted = await fetch(origin + path, {
      method: 'POST', body: JSON.stringify(input),
      headers: { 'content-type': 'application/json', prefer: 'respond-async' },
    })
    const location = accepted.headers.get('location') ?? ''
    for (;;) {
      const status = await fetch(origin + location, { headers: { prefer: 'wait=20' } })
      const body = await status.json() as { status: string, files?: FileBody[] }
      if (body.status === 'processing') continue
      assert.equal(body.status, 'completed')
      const [file] = body.files ?? []
      assert.ok(file)
      return file
    }
  }

  function open(path: string, headers: Record<string, string>): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      get({ port: server.port, host: '127.0.0.1', path, headers, agent: false }, resolve).on('error', reject)
    })
  }

  /** Downloads a file over connections that break at random, as a client that resumes does. */
  async function downloaded({ url, size }: FileBody): Promise<{ digest: string, requests: number }> {
    const hash = createHash('sha256')
    let etag: string | undefined
    let requests = 0
    for (let received = 0; received < size;) {
      const resumes = etag === undefined ? {} : { range: `bytes=${received}-`, 'if-range': etag }
      const response = await open(url, resumes)
      requests++
      assert.equal(response.statusCode, etag === undefined ? 200 : 206)
      etag ??= response.headers.etag
      assert.equal(response.headers.etag, etag)
      let untilCut = randomInt(1, Math.ceil(size / 5))
      for await (const chunk of response as AsyncIterable<Buffer>) {
        const taken = chunk.subarray(0, untilCut)
        hash.update(taken)
        received += taken.byteLength
        untilCut -= taken.byteLength
        if (untilCut === 0) break
      }
      response.destroy()
    }
    return { digest: `sha-256=:${hash.digest('base64')}:`, requests }
  }

  async function memoryStaysFlat(): Promise<void> {
    const { maxRss } = await server.memory()
    const rise = Math.round((maxRss - atStart) / MIB)
    assert.ok(maxRss < atStart + 120 * MIB, `${rise} MiB more than at the start`)
  }

  test('is written, and has the right digest when it is downloaded after random cuts', async () => {
    const file = await written('/large', { mebibytes: MEBIBYTES })
    assert.equal(file.size, MEBIBYTES * MIB)
    const { digest, requests } = await downloaded(file)
    assert.equal(digest, file.digest)
    assert.ok(requests > 1, 'no connection was cut')
    await memoryStaysFlat()
  })

  test('is exported from many records, and has the right digest after random cuts', async () => {
    const file = await written('/users', { count: USERS })
    assert.ok(file.size > USERS * 30)
    assert.equal((await downloaded(file)).digest, file.digest)
    await memoryStaysFlat()
  })
})
