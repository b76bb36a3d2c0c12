// tus-js-client, unchanged, in the versions of the IETF draft that it speaks.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { describe, test } from 'node:test'
import { Upload, type UploadOptions } from 'tus-js-client'
import { sha256 } from '../../unit/kit/uploads.js'
import { CuttingProxy, open } from '../kit/uploads.js'

type TusOptions = UploadOptions & { readonly protocol: 'ietf-draft-03' | 'ietf-draft-05' }

/** Uploads to the end. Resolves to the text of the last answer. */
function send(bytes: Buffer, options: TusOptions): { done: Promise<string>, upload: Upload } {
  let finish: (text: string) => void
  let fail: (error: unknown) => void
  const done = new Promise<string>((resolve, reject) => {
    finish = resolve
    fail = reject
  })
  const all: TusOptions = {
    retryDelays: Array<number>(20).fill(20),
    onSuccess: ({ lastResponse }) => { finish(lastResponse.getBody()) },
    onError: (error) => { fail(error) },
    ...options,
  }
  const upload = new Upload(bytes, all)
  upload.start()
  return { done, upload }
}

describe('an upload by tus-js-client 4', () => {
  for (const protocol of ['ietf-draft-03', 'ietf-draft-05'] as const) {
    const versions: Record<string, Partial<TusOptions>> = {
      'in one PATCH': {},
      'in chunks': { chunkSize: 70_000 },
      'with data in the POST': { uploadDataDuringCreation: true, chunkSize: 70_000 },
      'in one POST': { uploadDataDuringCreation: true },
    }
    for (const [name, options] of Object.entries(versions)) {
      test(`completes: ${protocol}, ${name}`, async () => {
        const site = await open()
        const bytes = randomBytes(300_000)
        const progress: number[] = []
        const { done } = send(bytes, {
          protocol, endpoint: `${site.base}/api/files`, headers: { 'x-name': 'film' }, ...options,
          onProgress: (sent) => { progress.push(sent) },
        })
        const answer = JSON.parse(await done) as unknown
        assert.deepEqual(answer, { size: bytes.length, sha256: sha256(bytes) })
        assert.equal(site.seen.length, 1)
        assert.equal(site.seen[0]?.headers['x-name'], 'film')
        assert.equal(progress.at(-1), bytes.length)
        await site.close()
      })
    }

    test(`${protocol}: resumes after broken connections, and the handler runs once`, async () => {
      const site = await open({ partBytes: 32 * 1024 })
      const proxy = await CuttingProxy.to(site.port, [100, 5000, 60_000, 20_000, 90_000, 100, 50_000])
      const bytes = randomBytes(400_000)
      const { done } = send(bytes, { protocol, endpoint: `http://127.0.0.1:${proxy.port}/api/files` })
      assert.deepEqual(JSON.parse(await done), { size: bytes.length, sha256: sha256(bytes) })
      assert.equal(site.seen.length, 1)
      assert.equal(proxy.cuts, 7)
      proxy.close()
      await site.close()
    })

    test(`${protocol}: is paused, resumed and terminated`, async () => {
      const site = await open()
      const bytes = randomBytes(300_000)
      let paused: Promise<void> | undefined
      const options: TusOptions = {
        protocol, endpoint: `${site.base}/api/files`, chunkSize: 100_000,
        onChunkComplete: (_, accepted) => { if (accepted === 100_000) paused = upload.abort() },
      }
      const { done, upload } = send(bytes, options)
      while (paused === undefined) await new Promise((resolve) => { setImmediate(resolve) })
      await paused
      upload.start()
      assert.deepEqual(JSON.parse(await done), { size: bytes.length, sha256: sha256(bytes) })

      let stopped: Promise<void> | undefined
      const second = send(bytes, { ...options, onChunkComplete: () => { stopped ??= second.upload.abort(true) } })
      while (stopped === undefined) await new Promise((resolve) => { setImmediate(resolve) })
      await stopped
      assert.equal(site.seen.length, 1)
      assert.equal(site.blobsInUse(), 0, 'terminate has deleted the bytes')
      await site.close()
    })
  }
})
