// Uploads whose last request is interrupted when its last byte has arrived, by tus-js-client.
import assert from 'node:assert/strict'
import { randomBytes, randomInt, randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { FolderBlobs } from 'longhaul/files'
import { memory } from 'longhaul/memory'
import { Upload, type UploadOptions } from 'tus-js-client'
import type { BlobPutOptions } from '../../../src/stores/blobs.js'
import { sha256 } from '../../unit/kit/uploads.js'
import { openDatabase } from '../../servers/open-database.js'
import { postgresUrl } from '../../servers/postgres-url.js'
import { redisUrl } from '../../servers/redis-server.js'
import { open } from '../kit/uploads.js'

const UPLOADS = 40
const SIZE = 100_000

/** A folder on a slow disk. Calls `onWhole` when `SIZE` bytes of an upload have arrived. */
class SlowFolder extends FolderBlobs {
  onWhole = (): void => undefined

  override put(key: string, content: AsyncIterable<Uint8Array>, options: BlobPutOptions) {
    return super.put(key, this.#slowly(content), options)
  }

  async* #slowly(content: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    let arrived = 0
    for await (const chunk of content) {
      arrived += chunk.byteLength
      yield chunk
      if (arrived < SIZE) continue
      this.onWhole()
      await sleep(randomInt(30))
    }
  }
}

/** Uploads, but disconnects and starts again when the server has all bytes. */
function sendInterrupted(
  blobs: SlowFolder, endpoint: string, bytes: Buffer, protocol: 'ietf-draft-03' | 'ietf-draft-05',
): Promise<void> {
  return new Promise((resolve, reject) => {
    const options: UploadOptions & { protocol: string } = {
      endpoint, protocol, retryDelays: Array<number>(20).fill(20),
      onSuccess: () => { resolve() },
      onError: reject,
    }
    const upload = new Upload(bytes, options)
    blobs.onWhole = () => {
      blobs.onWhole = () => undefined
      void upload.abort().then(() => { upload.start() })
    }
    upload.start()
  })
}

const databases: Record<string, () => Promise<string | undefined>> = {
  memory: async () => undefined, Redis: redisUrl, PostgreSQL: postgresUrl,
}

for (const [name, find] of Object.entries(databases)) {
  describe(`an upload by tus-js-client that disconnects after the last byte, with ${name} and a folder`, async () => {
    const url = await find()
    const folder = mkdtempSync(join(tmpdir(), 'longhaul-end-'))
    const database = url === undefined ? undefined
      : openDatabase(url, { name: `e${randomUUID().replaceAll('-', '')}`, folder })
    const blobs = new SlowFolder(folder, { shared: true })
    const store = database?.parts.store ?? memory().store
    after(async () => {
      await blobs.close()
      await database?.close()
      rmSync(folder, { recursive: true, force: true })
    })

    for (const protocol of ['ietf-draft-03', 'ietf-draft-05'] as const) {
      test(`${protocol}: the handler gets each of ${UPLOADS} uploads once before the client reports success`, async (t) => {
        const site = await open({ store, blobs })
        t.after(() => site.close())
        const counts: number[] = []
        for (let at = 0; at < UPLOADS; at++) {
          const bytes = randomBytes(SIZE)
          await sendInterrupted(blobs, `${site.base}/api/files`, bytes, protocol)
          counts.push(site.seen.filter((each) => each.sha256 === sha256(bytes)).length)
        }
        assert.deepEqual(counts, Array<number>(UPLOADS).fill(1))
      })
    }
  })
}
