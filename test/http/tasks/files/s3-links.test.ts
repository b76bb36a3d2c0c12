// Downloads that are redirected to signed URLs of the object storage.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, test, type TestContext } from 'node:test'
import { promisify } from 'node:util'
import { GetObjectCommand } from '@aws-sdk/client-s3'
import { getSignedUrl } from '@aws-sdk/s3-request-presigner'
import { defineTask } from 'longhaul'
import { createClient } from 'longhaul/client'
import { blobSource, content } from 'longhaul/content'
import { memory } from 'longhaul/memory'
import { S3Blobs } from 'longhaul/s3'
import { inject } from 'longhaul/testing'
import { inFuture, S3Front, type S3Request } from '../../../servers/s3-front.js'
import { s3Client, s3ForFile } from '../../../servers/s3-server.js'
import { filesSite } from '../../kit/task-files.js'
import { eventually } from '../../../kit/wait.js'
import { digestOf, pattern } from './suite.js'

const { client, bucket, port } = await s3ForFile()
const LARGE = 9_000_000
const LATER = { ttlMs: 7_200_000 }
const CSV = '1,total 1\n2,total 2\n3,total 3\n'

const report = defineTask({
  name: 'report',
  files: true,
  run: async ({ size }: { size?: number }, { files }) => {
    if (size === undefined) await files.write('Übersicht.csv', CSV, { type: 'text/csv; charset=utf-8' })
    else await files.write('large.bin', pattern(size))
  },
})

type Options = Partial<ConstructorParameters<typeof S3Blobs>[0]>

function open(t: TestContext, options: Options = { getSignedUrl }): S3Blobs {
  const blobs = new S3Blobs({ client, bucket, prefix: `${randomBytes(6).toString('hex')}/`, ...options })
  t.after(() => blobs.close())
  return blobs
}

/** A server with a finished task. Clients reach the storage by the address of `front`, longhaul by another one. */
async function start(
  t: TestContext,
  { size, isSigned = true, ...options }: Options & { readonly size?: number; readonly isSigned?: boolean } = {},
) {
  const front = await S3Front.to(port)
  t.after(front.close)
  const seen: S3Request['req'][] = []
  front.handle = ({ req, forward }) => {
    seen.push(req)
    return forward()
  }
  const outside = s3Client(front.url)
  t.after(() => {
    outside.destroy()
  })
  const signing: Options = { getSignedUrl: (_, command, options) => getSignedUrl(outside, command, options) }
  const blobs = open(t, { ...(isSigned && signing), ...options })
  const { engine, store } = memory()
  const site = await filesSite(
    t,
    { parts: { engine, store, blobs }, blobCount: async () => 0, close: async () => undefined },
    [report],
  )
  const { path, body } = await site.ran('report', size === undefined ? {} : { size })
  const [file] = body.files ?? assert.fail(JSON.stringify(body))
  const url = file?.url ?? assert.fail()
  const ask = (headers: Record<string, string> = {}, method = 'GET') =>
    fetch(site.origin + url, { method, redirect: 'manual', headers: { 'x-user': 'ann', ...headers } })
  return { ...site, front, seen, path, file, url, ask, blobs }
}

/** Runs curl, which follows redirects. */
async function curl(...args: readonly string[]): Promise<string> {
  const { stdout } = await promisify(execFile)('curl', [
    '--silent',
    '--show-error',
    '--fail',
    '--location',
    '--noproxy',
    '*',
    '-H',
    'x-user: ann',
    '-H',
    'Authorization: Bearer secret',
    ...args,
  ])
  return stdout
}

describe('a download with a signed URL', () => {
  test('redirects a GET, and the storage sends the bytes with the headers of a download', async (t) => {
    const { ask, call, url, front } = await start(t)
    const redirect = await ask()
    assert.deepEqual(
      [redirect.status, redirect.headers.get('cache-control'), await redirect.text()],
      [307, 'no-store', ''],
    )
    const location = new URL(redirect.headers.get('location') ?? '')
    assert.equal(location.origin, front.url)
    assert.equal(location.searchParams.get('X-Amz-Expires'), '300')
    const whole = await call('GET', url, { 'x-user': 'ann' })
    assert.deepEqual([whole.status, await whole.text()], [200, CSV])
    assert.equal(new URL(whole.url).origin, front.url)
    assert.equal(whole.headers.get('content-type'), 'text/csv; charset=utf-8')
    assert.equal(whole.headers.get('cache-control'), 'private, no-cache')
    assert.equal(
      whole.headers.get('content-disposition'),
      'attachment; filename="?bersicht.csv"; filename*=UTF-8\'\'%C3%9Cbersicht.csv',
    )
    assert.deepEqual(front.requests, ['get'])
  })

  test('is sent by longhaul without the option getSignedUrl', async (t) => {
    const { ask, blobs } = await start(t, { isSigned: false })
    assert.equal(blobs.link, undefined)
    const whole = await ask()
    assert.deepEqual([whole.status, await whole.text(), whole.headers.get('repr-digest')], [200, CSV, digestOf(CSV)])
  })

  test('responds to HEAD with the headers and the digest, and checks conditions before the redirect', async (t) => {
    const { ask, call, url, front } = await start(t)
    const head = await ask({}, 'HEAD')
    assert.deepEqual(
      [head.status, head.headers.get('content-length'), head.headers.get('repr-digest')],
      [200, '30', digestOf(CSV)],
    )
    const etag = head.headers.get('etag') ?? ''
    assert.equal(
      (await call('GET', url, { 'x-user': 'ann' })).headers.get('etag'),
      etag,
      'the storage has the same tag',
    )
    assert.equal((await ask({ 'if-none-match': etag })).status, 304)
    assert.equal((await ask({ 'if-match': '"other"' })).status, 412)
    assert.equal((await ask({ 'if-match': etag })).status, 307)
    assert.equal((await ask({ accept: 'image/png' })).status, 406)
    assert.equal((await ask({ range: 'bytes=30-' })).status, 416)
    assert.deepEqual(front.requests, ['get'])
  })

  test('comes from the storage for a single range, and otherwise from longhaul', async (t) => {
    const { ask, call, url, front } = await start(t)
    const etag = (await ask({}, 'HEAD')).headers.get('etag') ?? ''
    for (const condition of [{}, { 'if-range': etag }] as Record<string, string>[]) {
      const headers = { 'range': 'bytes=10-18', ...condition }
      assert.equal((await ask(headers)).status, 307)
      const part = await call('GET', url, { 'x-user': 'ann', ...headers })
      assert.deepEqual(
        [part.status, part.headers.get('content-range'), await part.text()],
        [206, 'bytes 10-18/30', '2,total 2'],
      )
    }
    assert.deepEqual(front.requests, ['get', 'get'])
    // This storage would send a part of other content: it ignores If-Range.
    const stale = await ask({ 'range': 'bytes=10-18', 'if-range': '"other"' })
    assert.deepEqual([stale.status, await stale.text()], [200, CSV])
    const several = await ask({ range: 'bytes=0-0,-1' })
    assert.deepEqual(
      [several.status, several.headers.get('content-type')?.split(';')[0]],
      [206, 'multipart/byteranges'],
    )
    const malformed = await ask({ range: 'bytes=x' })
    assert.deepEqual([malformed.status, await malformed.text()], [200, CSV])
    assert.equal(front.requests.length, 2)
  })

  test('is only for the owner, and its URL may outlive the task and its file', async (t) => {
    let signed = 0
    const { ask, tasks, path } = await start(t, {
      getSignedUrl: (...args) => {
        signed++
        return getSignedUrl(...args)
      },
    })
    assert.deepEqual(
      [(await ask({ 'x-user': 'bob' })).status, (await ask({ 'x-user': '' })).status, signed],
      [404, 404, 0],
    )
    const location = (await ask()).headers.get('location') ?? ''
    assert.equal(await tasks.delete(path.split('/').at(-1) ?? ''), true)
    assert.equal((await ask()).status, 404)
    assert.equal(await (await fetch(location)).text(), CSV)
  })

  test('works with curl, which follows the redirect, takes a range, resumes, and keeps its credentials', async (t) => {
    const { origin, url, file, seen } = await start(t, { size: LARGE })
    const folder = await mkdtemp(join(tmpdir(), 'longhaul-links-'))
    t.after(() => rm(folder, { recursive: true }))
    const [whole, rest] = [join(folder, 'whole'), join(folder, 'rest')]
    await curl('-o', whole, origin + url)
    const bytes = await readFile(whole)
    assert.equal(digestOf(bytes), file?.digest)
    assert.equal(await curl('-r', '65-69', origin + url), 'ABCDE')
    await writeFile(rest, bytes.subarray(0, 1_000_001))
    await curl('-C', '-', '-o', rest, origin + url)
    assert.ok(bytes.equals(await readFile(rest)))
    assert.deepEqual(seen.map(({ headers }) => headers.range), [undefined, 'bytes=65-69', 'bytes=1000001-'])
    assert.deepEqual(seen.map(({ headers }) => headers.authorization), [undefined, undefined, undefined])
  })

  test('is resumed and verified by the client, which sends its headers only to longhaul', async (t) => {
    const { origin, path, file, seen, front, server } = await start(t, { size: LARGE })
    const api = createClient({
      baseUrl: origin, headers: { 'x-user': 'ann', 'authorization': 'Bearer secret' }, retry: { baseMs: 1 },
    })
    const download = api.resume({ statusUrl: path }).file('large.bin')
    const requests: string[] = []
    server.on('request', ({ method = '', headers }) => {
      requests.push(`${method} ${headers.range ?? ''} ${String(headers.authorization)}`)
    })
    front.handle = ({ req, res, forward }) => {
      const isFirst = seen.push(req) === 1
      return forward({
        before: async (sent) => {
          if (!isFirst || sent < 1_000_000) return true
          await eventually(() => download.received > 0)
          res.destroy()
          return false
        },
      })
    }
    const blob = await download.blob()
    assert.equal(digestOf(new Uint8Array(await blob.arrayBuffer())), file?.digest)
    const resumedAt = /bytes=(\d+)-/.exec(requests[2] ?? '')?.[1]
    assert.deepEqual(requests, [
      'GET bytes=0- Bearer secret', 'HEAD  Bearer secret', `GET bytes=${resumedAt ?? ''}- Bearer secret`,
    ])
    assert.ok(Number(resumedAt) > 0)
    assert.deepEqual(seen.map(({ headers }) => headers.range), ['bytes=0-', `bytes=${resumedAt ?? ''}-`])
    for (const { headers } of seen) assert.deepEqual([headers.authorization, headers['x-user']], [undefined, undefined])
  })

  test('fails at the client if the storage sends other bytes', async (t) => {
    const { origin, path, file, front } = await start(t)
    front.handle = async ({ res }) => {
      const etag =
        (await fetch(origin + (file?.url ?? ''), { method: 'HEAD', headers: { 'x-user': 'ann' } })).headers.get(
          'etag',
        ) ?? ''
      res.writeHead(206, { etag, 'content-range': 'bytes 0-29/30', 'content-length': '30' }).end('x'.repeat(30))
    }
    const api = createClient({ baseUrl: origin, headers: { 'x-user': 'ann' }, retry: { attempts: 1 } })
    for (const which of [file ?? '', file?.name ?? '']) {
      await assert.rejects(api.resume({ statusUrl: path }).file(which).blob(), { code: 'digest_mismatch' })
    }
  })

  test('is redirected for content, unless the content is compressed or was replaced', async (t) => {
    const blobs = open(t)
    const text = 'text '.repeat(1000)
    await blobs.put('notes', pattern(0), LATER)
    await blobs.put('notes', async function* () { yield Buffer.from(text) }(), LATER)
    const handler = content(() => blobSource(blobs, 'notes', { type: 'text/plain' }), {
      codings: ['gzip'],
      cacheControl: 'public, max-age=60',
    })
    const plain = await inject(handler, { path: '/' })
    assert.deepEqual([plain.status, plain.headers['cache-control']], [307, 'no-store'])
    const sent = await fetch(String(plain.headers['location']))
    assert.deepEqual([sent.headers.get('cache-control'), await sent.text()], ['public, max-age=60', text])
    const zipped = await inject(handler, { path: '/', headers: { 'accept-encoding': 'gzip' } })
    assert.deepEqual([zipped.status, zipped.headers['content-encoding']], [200, 'gzip'])
    const replaced = content(async () => {
      const source = await blobSource(blobs, 'notes')
      await blobs.put('notes', pattern(10), LATER)
      return source
    })
    const response = await inject(replaced, { path: '/', onError: () => undefined })
    assert.deepEqual([response.status, response.headers['retry-after']], [503, '1'])
  })

  test('has the tag that the storage sends for a multipart upload', async (t) => {
    const blobs = open(t)
    const { etag } = await blobs.put('large', pattern(LARGE), LATER)
    assert.equal((await blobs.stat('large'))?.etag, etag)
    const url = await blobs.link?.('large', { etag, type: 'a/b', cacheControl: 'no-store' })
    const response = await fetch(url ?? assert.fail(), { headers: { range: 'bytes=0-1' } })
    assert.deepEqual(
      [response.headers.get('etag'), response.headers.get('content-range')],
      [etag, `bytes 0-1/${LARGE}`],
    )
    await response.arrayBuffer()
  })

  test('is signed with the clock of the server, and a failed or slow signature causes a StoreUnavailableError', async (t) => {
    const front = await S3Front.to(port)
    t.after(front.close)
    front.handle = ({ forward }) => forward({ headers: inFuture(3_600_000) })
    const ahead = s3Client(front.url)
    t.after(() => {
      ahead.destroy()
    })
    let date = new Date(0)
    const blobs = open(t, {
      client: ahead,
      getSignedUrl: async (_, command, { signingDate }) => {
        assert.ok(command instanceof GetObjectCommand)
        date = signingDate
        throw new Error('no credentials')
      },
    })
    await blobs.put('a', pattern(1), LATER)
    const link = { type: 'a/b', cacheControl: 'no-store' }
    await assert.rejects(async () => blobs.link?.('a', link), {
      name: 'StoreUnavailableError',
      message: /no credentials/,
    })
    assert.ok(date.getTime() > Date.now() + 3_000_000)
    const silent = open(t, { timeoutMs: 1000, getSignedUrl: () => new Promise(() => undefined) })
    await silent.put('a', pattern(1), LATER)
    await assert.rejects(async () => silent.link?.('a', link), {
      name: 'StoreUnavailableError',
      message: /No response within 1000 ms/,
    })
    await silent.close()
    await assert.rejects(async () => silent.link?.('a', link), { name: 'StoreUnavailableError' })
  })
})
