// Requests of other protocols for uploads: tus 1.0 by tus-js-client, partial PUT, older drafts.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { describe, test } from 'node:test'
import { Upload, type DetailedError } from 'tus-js-client'
import { open } from '../kit/uploads.js'

const TUS = { 'tus-resumable': '1.0.0' }

describe('a client of tus 1.0', () => {
  for (const [name, options] of Object.entries({
    'as by default': {}, 'with data in the POST': { uploadDataDuringCreation: true }, 'in chunks': { chunkSize: 1000 },
    'with POST in place of PATCH': { overridePatchMethod: true },
  })) {
    test(`gets a 412 with Tus-Version as tus-js-client, ${name}, and no handler runs`, async (t) => {
      const site = await open()
      t.after(() => site.close())
      const error = await new Promise<DetailedError>((resolve, reject) => {
        new Upload(randomBytes(5000), {
          endpoint: `${site.base}/api/files`, retryDelays: [1, 1, 1], ...options,
          onError: (failed) => { resolve(failed as DetailedError) },
          onSuccess: () => { reject(new Error('The upload has succeeded')) },
        }).start()
      })
      assert.equal(error.originalResponse?.getStatus(), 412)
      assert.equal(error.originalResponse?.getHeader('Tus-Version'), 'ietf-draft-05, ietf-draft-03')
      assert.deepEqual([site.seen.length, site.blobsInUse()], [0, 0])
    })
  }

  test('gets a 412 for each method of an upload except OPTIONS, and nothing changes', async (t) => {
    const site = await open()
    t.after(() => site.close())
    const made = await fetch(`${site.base}/api/files`, {
      method: 'POST',
      headers: { 'upload-complete': '?0' },
      body: 'abc',
    })
    const url = new URL(made.headers.get('location') ?? '', site.base)
    for (const method of ['HEAD', 'GET', 'PATCH', 'DELETE', 'POST']) {
      const { status, headers } = await fetch(url, { method, headers: TUS })
      // The router knows no POST there.
      assert.equal(status, method === 'POST' ? 405 : 412, method)
      if (method !== 'POST') assert.notEqual(headers.get('tus-version'), null)
    }
    assert.equal((await fetch(url, { method: 'OPTIONS', headers: TUS })).status, 200)
    assert.equal((await fetch(url, { method: 'HEAD' })).headers.get('upload-offset'), '3')
    assert.equal(site.seen.length, 0)
  })
})

describe('a request for a part that looks like the whole', () => {
  for (const headers of [
    { 'content-range': 'bytes 0-2/9' }, { 'upload-incomplete': '?1', 'upload-draft-interop-version': '3' },
    { 'content-range': 'bytes 0-2/9', 'upload-complete': '?1' },
  ]) {
    test(`gets a 400 for ${JSON.stringify(headers)}, and no handler runs`, async (t) => {
      const site = await open()
      t.after(() => site.close())
      const response = await fetch(`${site.base}/api/files`, { method: 'POST', headers: headers as never, body: 'abc' })
      assert.equal(response.status, 400)
      assert.equal((await response.json() as { code: string }).code, 'invalid_header')
      assert.deepEqual([site.seen.length, site.blobsInUse()], [0, 0])
    })
  }
})
