// A chunk that has been sent gives its memory to the next one, and nobody else may see that.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import { describe, test, type TestContext } from 'node:test'
import { FolderBlobs, fileSource } from 'longhaul/files'
import { toNode } from '../../../adapters/node/index.js'
import { content } from '../../../src/content/content.js'
import { blobSource, type ContentSource } from '../../../src/content/source.js'
import { listen } from '../../kit/listen.js'
import { request } from '../../unit/kit/content.js'
import { closed, folder, piece } from '../kit/content.js'

const BYTES = randomBytes(3_000_000)

async function file(t: TestContext): Promise<string> {
  const path = join(await folder(t), 'file.bin')
  await writeFile(path, BYTES)
  return path
}

const SOURCES: Record<string, (t: TestContext) => Promise<ContentSource | undefined>> = {
  'a file': async (t) => fileSource(await file(t))(request('GET', {})),
  'a blob in a folder': async (t) => {
    const blobs = new FolderBlobs(await folder(t))
    t.after(() => blobs.close())
    await blobs.put('key', (async function* () { yield BYTES })(), { ttlMs: 60_000 })
    return blobSource(blobs, 'key')
  },
}

for (const [name, open] of Object.entries(SOURCES)) {
  describe(`a reader of ${name}`, () => {
    test('gets the memory of a chunk again that it passes back', async (t) => {
      const response = await content(await open(t) as ContentSource)(request('GET', {}))
      const chunks = (response?.body as AsyncIterable<Uint8Array>)[Symbol.asyncIterator]() as
        AsyncIterator<Uint8Array, undefined, Uint8Array | undefined>
      const memories = new Set<ArrayBufferLike>()
      const copies: Uint8Array[] = []
      for (let step = await chunks.next(); step.done !== true; step = await chunks.next(step.value)) {
        memories.add(step.value.buffer)
        copies.push(Uint8Array.from(step.value))
      }
      assert.ok(copies.length > 10)
      assert.equal(memories.size, 1)
      assert.ok(BYTES.equals(Buffer.concat(copies)))
    })

    test('may keep all chunks if it passes none back, or another one', async (t) => {
      const response = await content(await open(t) as ContentSource)(request('GET', {}))
      const chunks = (response?.body as AsyncIterable<Uint8Array>)[Symbol.asyncIterator]() as
        AsyncIterator<Uint8Array, undefined, Uint8Array | undefined>
      const kept: Uint8Array[] = []
      for (let step = await chunks.next(); step.done !== true; step = await chunks.next(kept.at(-2))) {
        kept.push(step.value)
      }
      assert.ok(BYTES.equals(Buffer.concat(kept)))
    })
  })
}

describe('a response with a file', () => {
  test('has all bytes of the file, even if the client reads slowly', async (t) => {
    const path = await file(t)
    const { port, close } = await listen(createServer(toNode(content(fileSource(path)))))
    t.after(close)
    const socket = connect(port, '127.0.0.1')
    socket.write('GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
    const received: Buffer[] = []
    socket.on('data', (chunk: Buffer) => {
      received.push(chunk)
      socket.pause()
      setImmediate(() => { socket.resume() })
    })
    await once(socket, 'close')
    const all = Buffer.concat(received)
    assert.ok(BYTES.equals(all.subarray(all.indexOf('\r\n\r\n') + 4)))
    await closed(path)
  })

  test('leaves its chunks to middleware that keeps them', async (t) => {
    const path = await file(t)
    const kept: Uint8Array[] = []
    const serve = toNode(content(fileSource(path)))
    const { port, close } = await listen(createServer((req, res) => {
      const write = res.write.bind(res) as (chunk: Uint8Array) => boolean
      res.write = (chunk: Uint8Array) => {
        kept.push(chunk)
        return write(chunk)
      }
      serve(req, res)
    }))
    t.after(close)
    assert.ok(BYTES.equals((await piece(port, '/')).bytes))
    assert.ok(BYTES.equals(Buffer.concat(kept)))
  })
})
