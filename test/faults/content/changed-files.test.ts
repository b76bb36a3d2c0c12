import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { truncate, open as openFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { fileSource } from 'longhaul/files'
import { isHttpError } from '../../../src/http/errors.js'
import { fakeRequest } from '../../unit/kit/request.js'
import { content } from '../../../src/content/content.js'
import { closed, folder, piece, serve, sha256, type Site } from '../../http/kit/content.js'
import { eventually, open } from '../../http/kit/wire.js'

setFlagsFromString('--expose-gc')
const gc = runInNewContext('gc') as () => void

const SIZE = 24 * 1024 * 1024

async function large(t: TestContext): Promise<Site & { base: string, path: string, bytes: Buffer }> {
  const base = await folder(t)
  const path = join(base, 'large.bin')
  const bytes = randomBytes(SIZE)
  await writeFile(path, bytes)
  return { ...await serve(t, content(fileSource(path))), base, path, bytes }
}

/** Takes the head and a first piece of a download, does something to the file, and reads on. */
async function midway(
  port: number,
  change: () => Promise<void>,
): Promise<{ status: number; bytes: Buffer; whole: boolean; etag: string }> {
  const response = await open(port, 'GET', '/')
  const chunks: Buffer[] = []
  let whole = false
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) {
      chunks.push(chunk)
      if (chunks.length === 1) await change()
    }
    whole = response.complete
  } catch {
    // The server cut the connection.
  }
  return { status: response.statusCode ?? 0, bytes: Buffer.concat(chunks), whole, etag: response.headers.etag ?? '' }
}

test('a file that is truncated while it is sent cuts the connection, and the next request gets the shorter file', async (t) => {
  const { port, path, base, bytes } = await large(t)
  const cut = await midway(port, () => truncate(path, 1000))
  assert.equal(cut.status, 200)
  assert.equal(cut.whole, false)
  const again = await piece(port, '/', { 'range': `bytes=${cut.bytes.byteLength}-`, 'if-range': cut.etag })
  assert.equal(again.status, 200)
  assert.equal(sha256(again.bytes), sha256(bytes.subarray(0, 1000)))
  await closed(base)
})

test('a file that is overwritten in place while it is sent never ends as a mixture of both contents', async (t) => {
  const { port, path, base } = await large(t)
  const newer = randomBytes(SIZE)
  const cut = await midway(port, async () => {
    const file = await openFile(path, 'r+')
    await file.write(newer, 0, SIZE, 0)
    await file.close()
  })
  assert.equal(cut.whole, false)
  const again = await piece(port, '/', { 'range': `bytes=${cut.bytes.byteLength}-`, 'if-range': cut.etag })
  assert.equal(again.status, 200)
  assert.equal(sha256(again.bytes), sha256(newer))
  await closed(base)
})

test('a file that grows while it is sent cuts the connection', async (t) => {
  const { port, path } = await large(t)
  const cut = await midway(port, async () => {
    const file = await openFile(path, 'a')
    await file.write('more')
    await file.close()
  })
  assert.equal(cut.whole, false)
})

test('a file that is replaced or deleted while it is sent is sent to its end with its old content', async (t) => {
  const { port, path, base, bytes } = await large(t)
  const newer = randomBytes(1000)
  const old = await midway(port, async () => {
    await writeFile(join(base, 'new'), newer)
    await rename(join(base, 'new'), path)
  })
  assert.equal(old.whole, true)
  assert.equal(sha256(old.bytes), sha256(bytes))
  const gone = await midway(port, async () => {
    await writeFile(path, bytes)
  })
  assert.equal(gone.bytes.byteLength, 1000)
  const deleted = await midway(port, () => rm(path))
  assert.equal(sha256(deleted.bytes), sha256(bytes))
  assert.equal((await piece(port, '/')).status, 404)
  await closed(base)
})

test('a file that changes or is deleted between lookup and read is never sent with its old ETag', async (t) => {
  const { path, base } = await large(t)
  const handler = content(fileSource(path))
  const firstOf = async (change: () => Promise<void>): Promise<unknown> => {
    const answer = await handler({ ...fakeRequest(), method: 'GET' })
    assert.equal(answer?.status, 200)
    await change()
    const iterator = (answer.body as AsyncIterable<Uint8Array>)[Symbol.asyncIterator]()
    const outcome = await iterator.next().then(() => 'served', (error: unknown) => isHttpError(error) && error.code)
    await iterator.return?.()
    return outcome
  }
  assert.equal(await firstOf(async () => {}), 'served')
  assert.equal(await firstOf(() => writeFile(path, 'other')), 'service_unavailable')
  assert.equal(await firstOf(async () => {
    await writeFile(join(base, 'new'), 'other')
    await rename(join(base, 'new'), path)
  }), 'service_unavailable')
  assert.equal(await firstOf(() => rm(path)), 'not_found')
})

test('a hundred clients that leave at any time leave no descriptor behind', async (t) => {
  const { port, base, noise } = await large(t)
  await Promise.all(Array.from({ length: 100 }, async (_, index) => {
    const headers =
      index % 3 === 0 ? { range: 'bytes=100-' } : index % 3 === 1 ? { range: 'bytes=0-5000000,6000000-9000000' } : {}
    const limit = [1, 1000, 70_000, 500_000][index % 4] as number
    assert.equal((await piece(port, '/', headers as Record<string, string>, limit)).bytes.byteLength, limit)
  }))
  await closed(base)
  assert.deepEqual(noise, [], 'a client that leaves is no failure')
})

test('clients that do not read take a bounded amount of memory, and can continue reading later', async (t) => {
  const { port, bytes } = await large(t)
  gc()
  const before = process.memoryUsage()
  const clients = await Promise.all(Array.from({ length: 20 }, () => open(port, 'GET', '/')))
  // Until their buffers and the kernel's are full.
  let last = -1
  let still = 0
  await eventually(() => {
    gc()
    const { arrayBuffers } = process.memoryUsage()
    still = arrayBuffers === last ? still + 1 : 0
    last = arrayBuffers
    return still === 20
  }, 'nothing more is read')
  const grown = process.memoryUsage().arrayBuffers - before.arrayBuffers
  assert.ok(grown < 20 * 1024 * 1024, `20 clients of 24 MiB each hold ${Math.round(grown / 1024)} KiB`)
  for (const client of clients.slice(1)) client.destroy()
  const chunks: Buffer[] = []
  for await (const chunk of clients[0] as AsyncIterable<Buffer>) chunks.push(chunk)
  assert.equal(sha256(Buffer.concat(chunks)), sha256(bytes))
})
