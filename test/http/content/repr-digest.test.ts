// Repr-Digest (RFC 9530) of files and blobs, from outside: curl, undici and our own client.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { promisify } from 'node:util'
import { request } from 'undici'
import { FileDigests } from '../../../adapters/files/file-digests.js'
import { versionOf } from '../../../adapters/files/read.js'
import { createClient } from 'longhaul/client'
import { blobSource, content } from 'longhaul/content'
import { fileSource, folderSource } from 'longhaul/files'
import { MemoryBlobs } from 'longhaul/memory'
import { folder, serve } from '../kit/content.js'

const run = promisify(execFile)
const digestOf = (bytes: Uint8Array | string, algorithm = 'sha256'): string => (
  createHash(algorithm).update(bytes).digest('base64')
)
const bytesOf = (seed: number, size = 300_000): Buffer => Buffer.alloc(size, `${seed} some bytes\n`)
const WANT = { 'want-repr-digest': 'sha-256=10' }

async function ask(port: number, path: string, headers: Record<string, string> = {}, method: 'GET' | 'HEAD' = 'GET') {
  const { statusCode, headers: answered, body } = await request(`http://127.0.0.1:${port}${path}`, { method, headers })
  const bytes = Buffer.from(await body.arrayBuffer())
  return { status: statusCode, digest: answered['repr-digest'], bytes }
}

describe('Repr-Digest of files', () => {
  test('is sent to clients that want it, with whole and partial content, and to curl', async (t) => {
    const path = await folder(t)
    await writeFile(join(path, 'a.txt'), bytesOf(1))
    const { port } = await serve(t, content(folderSource(path, { digests: {} })))
    const expected = `sha-256=:${digestOf(bytesOf(1))}:`
    assert.equal((await ask(port, '/a.txt')).digest, undefined)
    for (const headers of [WANT, { ...WANT, range: 'bytes=1000-1999' }]) {
      const { status, digest, bytes } = await ask(port, '/a.txt', headers)
      assert.deepEqual([digest, bytes.length], [expected, status === 206 ? 1000 : 300_000])
    }
    assert.equal((await ask(port, '/a.txt', WANT, 'HEAD')).digest, expected)
    assert.equal(
      (await ask(port, '/a.txt', { 'want-repr-digest': 'sha-512=3' })).digest,
      `sha-512=:${digestOf(bytesOf(1), 'sha512')}:`,
    )
    const file = join(path, 'downloaded')
    const { stdout } = await run('curl', [
      '-s',
      '-D',
      '-',
      '-o',
      file,
      '-H',
      'Want-Repr-Digest: sha-256=1',
      `http://127.0.0.1:${port}/a.txt`,
    ])
    const [, sent] = /^repr-digest: sha-256=:(.*):\r?$/im.exec(stdout) ?? []
    const { stdout: sum } = await run('sha256sum', [file])
    assert.equal(Buffer.from(sent ?? '', 'base64').toString('hex'), sum.slice(0, 64))
  })

  test('is the digest of the new bytes once a file is replaced', async (t) => {
    const path = await folder(t)
    const name = join(path, 'a.txt')
    await writeFile(name, bytesOf(1))
    const { port } = await serve(t, content(fileSource(name, { digests: {} })))
    for (let seed = 1; seed < 5; seed++) {
      const { digest, bytes } = await ask(port, '/', WANT)
      assert.deepEqual(bytes, bytesOf(seed))
      assert.equal(digest, `sha-256=:${digestOf(bytes)}:`)
      await writeFile(`${name}.new`, bytesOf(seed + 1))
      await rename(`${name}.new`, name)
    }
  })

  test('is not sent by default, nor for a file that is too large or has a weak tag', async (t) => {
    const path = await folder(t)
    const name = join(path, 'a.txt')
    await writeFile(name, bytesOf(1))
    for (const options of [{}, { digests: { maxFileBytes: 1000 } }, { digests: {}, etag: () => 'W/"1"' }]) {
      const { port } = await serve(t, content(fileSource(name, options)))
      const { status, digest } = await ask(port, '/', WANT)
      assert.deepEqual([status, digest], [200, undefined])
    }
  })

  test('distinguishes files to which the application gives the same ETag', async (t) => {
    const path = await folder(t)
    for (const seed of [1, 2]) await writeFile(join(path, `${seed}.txt`), bytesOf(seed))
    const { port } = await serve(t, content(folderSource(path, { digests: {}, etag: () => '"v1"' })))
    for (const seed of [1, 2, 1])
      assert.equal((await ask(port, `/${seed}.txt`, WANT)).digest, `sha-256=:${digestOf(bytesOf(seed))}:`)
  })

  test('is checked by longhaul/client, for a whole download and for resumed parts', async (t) => {
    const path = await folder(t)
    await writeFile(join(path, 'a.txt'), bytesOf(1))
    const right = await serve(t, content(folderSource(path, { digests: {} })))
    const client = createClient({ baseUrl: `http://127.0.0.1:${right.port}`, headers: WANT })
    assert.equal((await client.download('/a.txt').blob()).size, 300_000)
    const blobs = new MemoryBlobs()
    t.after(() => blobs.close())
    await blobs.put('a', (async function* () { yield bytesOf(1) })(), { ttlMs: 60_000 })
    for (const [seed, code] of [[1, undefined], [2, 'digest_mismatch']] as const) {
      const digests = { 'sha-256': digestOf(bytesOf(seed)) }
      const { port } = await serve(t, content(() => blobSource(blobs, 'a', { digests })))
      const found = await createClient({ baseUrl: `http://127.0.0.1:${port}` })
        .download('/')
        .blob()
        .then(
          () => undefined,
          (error: { code?: string }) => error.code,
        )
      assert.equal(found, code)
    }
  })
})

describe('the cached digests of files', () => {
  test('are computed once for all waiting requests, and computed again only after they were removed', async (t) => {
    const path = await folder(t)
    const files = await Promise.all([1, 2, 3].map(async (seed) => {
      const name = join(path, `${seed}`)
      await writeFile(name, bytesOf(seed))
      const version = await versionOf(name, 'refuse')
      assert.ok(version)
      return { path: name, version, exact: true }
    }))
    const [one, two, three] = files as [typeof files[0] & object, typeof files[0] & object, typeof files[0] & object]
    const digests = new FileDigests('test', {}, { maxEntries: 2, concurrency: 1 })
    const all = await Promise.all([1, 2, 3].map(() => digests.digestOf(one, '"1"', 'sha-256')))
    assert.deepEqual(new Set(all), new Set([digestOf(bytesOf(1))]))
    // The place is taken by one file; another one has to wait for a later request.
    const [first, second] = await Promise.all([
      digests.digestOf(two, '"2"', 'sha-256'),
      digests.digestOf(three, '"3"', 'sha-256'),
    ])
    assert.deepEqual([first, second], [digestOf(bytesOf(2)), undefined])
    // Files that changed have no digest any more, but what is kept of their versions stays.
    for (const seed of [1, 2, 3]) await writeFile(join(path, `${seed}`), 'changed')
    assert.equal(await digests.digestOf(one, '"1"', 'sha-256'), digestOf(bytesOf(1)))
    assert.equal(await digests.digestOf(three, '"3"', 'sha-256'), undefined)
    await writeFile(join(path, '4'), bytesOf(4))
    const version = await versionOf(join(path, '4'), 'refuse')
    assert.ok(version)
    assert.equal(
      await digests.digestOf({ path: join(path, '4'), version, exact: true }, '"4"', 'sha-256'),
      digestOf(bytesOf(4)),
    )
    assert.equal(await digests.digestOf(two, '"2"', 'sha-256'), undefined, 'it was not used for the longest time')
    assert.equal(await digests.digestOf(one, '"1"', 'sha-256'), digestOf(bytesOf(1)))
  })

  test('have limits that are checked', () => {
    for (const digests of [{ maxFileBytes: 0 }, { maxEntries: 0 }, { concurrency: Number.NaN }, { maxFiles: 1 }]) {
      assert.throws(() => fileSource('/x', { digests }), TypeError)
      assert.throws(() => folderSource('/', { digests }), TypeError)
    }
  })
})
