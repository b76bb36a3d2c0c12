import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { createHash, randomInt } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { promisify } from 'node:util'
import { LARGE_FILE_BYTES, largeFile } from '../../../examples/reference-server/large-file.js'
import { folder, sha256 } from '../kit/content.js'
import { blocks, section } from '../kit/doc-page.js'
import { root } from '../kit/process.js'
import { useReference } from '../kit/reference.js'

const PATH = '/api/files/large-file'
const SHA256 = '96483465222d641e7b1355b562a95f49065bf625201a9a65b980ab1b5e45a820'

describe('the large file', () => {
  const client = useReference()

  test('SPEC 4.5: GET streams it, and HEAD has the headers of GET', async () => {
    const response = await client.open('GET', PATH, { token: 'reader-1' })
    assert.equal(response.status, 200)
    const hash = createHash('sha256')
    let chunks = 0
    for await (const chunk of response.body ?? []) {
      hash.update(chunk)
      chunks++
    }
    assert.ok(chunks > 64, 'in chunks')
    assert.equal(hash.digest('hex'), SHA256)
    const head = await client.open('HEAD', PATH, { token: 'reader-1' })
    for (const [name, value] of Object.entries({
      'content-length': String(LARGE_FILE_BYTES),
      'content-type': 'application/octet-stream',
      'accept-ranges': 'bytes',
      'content-disposition': 'attachment; filename="large-file.bin"',
      'etag': response.headers.get('etag'),
      'last-modified': 'Thu, 01 Jan 2026 00:00:00 GMT',
    })) {
      assert.equal(head.headers.get(name), value, name)
      assert.equal(response.headers.get(name), value, name)
    }
  })

  test('SPEC 4.5: a client that pauses, loses its connection and resumes again and again has the same bytes in the end', async () => {
    const hash = createHash('sha256')
    let had = 0
    let etag = ''
    const cuts = Array.from({ length: 20 }, () => randomInt(1, LARGE_FILE_BYTES)).sort((a, b) => a - b)
    for (const cut of [...cuts, LARGE_FILE_BYTES]) {
      if (cut === had) continue
      const response = await client.open('GET', PATH, {
        headers: had === 0 ? {} : { 'range': `bytes=${had}-`, 'if-range': etag },
      })
      assert.equal(response.status, had === 0 ? 200 : 206)
      etag = response.headers.get('etag') ?? ''
      for await (const chunk of response.body ?? []) {
        const part = chunk.subarray(0, cut - had)
        hash.update(part)
        had += part.byteLength
        if (had === cut) break
      }
    }
    assert.equal(had, LARGE_FILE_BYTES)
    assert.equal(hash.digest('hex'), SHA256, `cut at ${cuts.join(', ')}`)
  })

  test('any range is read as fast at the end as at the start', async () => {
    const bytes = Buffer.concat([...largeFile(50_000_001, 50_100_000)])
    const response = await client.open('GET', PATH, { headers: { range: 'bytes=50000001-50099999' } })
    assert.equal(response.status, 206)
    assert.equal(sha256(Buffer.from(await response.arrayBuffer())), sha256(bytes))
    const several = await client.ask('GET', PATH, { headers: { range: 'bytes=0-0,-1' } })
    assert.equal(several.status, 206)
    assert.match(several.headers.get('content-type') ?? '', /^multipart\/byteranges; boundary=/)
  })

  test('conditional requests get a 304 or a 412', async () => {
    const etag = (await client.open('HEAD', PATH)).headers.get('etag') ?? ''
    const status = async (headers: Record<string, string>): Promise<number> => {
      const response = await client.open('GET', PATH, { headers })
      await response.body?.cancel()
      return response.status
    }
    assert.equal(await status({ 'if-none-match': etag }), 304)
    assert.equal(await status({ 'if-match': '"another"' }), 412)
    assert.equal(await status({ 'range': 'bytes=1-', 'if-range': '"another"' }), 200)
    assert.equal(await status({ range: `bytes=${LARGE_FILE_BYTES}-` }), 416)
  })

  test('SPEC 4.5: the commands of the guide resume the file with curl', async (t) => {
    const cwd = await folder(t)
    const [script = ''] = blocks(
      section(await readFile(join(root, 'docs/guide/reference-server.md'), 'utf8'), 'Large files'),
      'sh',
    )
    const commands = script.replaceAll('http://127.0.0.1:3000', client.url).replaceAll('demo-reader', 'reader-1')
    const { stdout } = await promisify(execFile)('sh', ['-e', '-c', commands], {
      cwd,
      env: { ...process.env, NO_PROXY: '127.0.0.1' },
    })
    const [, cut] = /^cut: +(\d+) bytes$/m.exec(stdout) ?? []
    assert.ok(Number(cut) > 0 && Number(cut) < LARGE_FILE_BYTES, stdout)
    assert.equal(sha256(await readFile(join(cwd, 'large.bin'))), SHA256)
  })

  test('readers may read the file, and only with GET and HEAD', async () => {
    assert.equal((await client.ask('GET', PATH, { token: null })).status, 401)
    assert.equal((await client.ask('HEAD', PATH, { token: 'nobody' })).status, 401)
    const refused = await client.ask('POST', PATH, { body: {} })
    assert.equal(refused.status, 405)
    assert.equal(refused.headers.get('allow'), 'GET, HEAD, OPTIONS')
  })
})
