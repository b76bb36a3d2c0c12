import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { link, mkdir, mkdtemp, open, readdir, rm, truncate, utimes, writeFile, type FileHandle } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as runner from 'node:test'
import { promisify } from 'node:util'
import { blobsConformance } from 'longhaul/conformance'
import { FolderBlobs } from 'longhaul/files'
import { isStoreUnavailable } from 'longhaul/stores'
import { openBelow } from '../http/kit/content.js'

const base = await mkdtemp(join(tmpdir(), 'longhaul-blobs-'))
runner.after(() => rm(base, { recursive: true, force: true }))
const MIB = 1024 * 1024
const folder = (): string => join(base, randomBytes(6).toString('hex'))

async function* text(value: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(value)
}

blobsConformance(runner, async () => ({ blobs: new FolderBlobs(folder()) }), { title: 'FolderBlobs' })

blobsConformance(runner, async () => {
  let time = 1_700_000_000_000
  const options = { shared: true, now: () => time }
  const path = folder()
  const blobs = new FolderBlobs(path, options)
  const second = new FolderBlobs(path, options)
  return {
    blobs, second, now: () => time, advance: (ms) => { time += ms },
    close: async () => {
      await blobs.close()
      await second.close()
      assert.equal(await openBelow(path), 0, 'no descriptor stays open')
      assert.deepEqual(
        (await readdir(path)).filter((name) => !name.endsWith('.blob')),
        [],
        'nothing unfinished is left',
      )
    },
  }
}, { title: 'FolderBlobs, two on one folder, with a clock that jumps' })

blobsConformance(runner, async () => {
  let time = 1_700_000_000_000
  const blobs = new FolderBlobs(folder(), { now: () => time, maxBytes: 2 * MIB })
  return { blobs, now: () => time, advance: (ms) => { time += ms }, capacity: 2 * MIB, close: () => blobs.close() }
}, { title: 'FolderBlobs with little room' })

runner.describe('FolderBlobs', () => {
  runner.it('a blob outlives its process: another process that opens the folder finds it', async () => {
    const path = folder()
    const first = new FolderBlobs(path)
    const info = await first.put('key', text('abc'), { ttlMs: 60_000 })
    await first.close()
    const next = new FolderBlobs(path)
    assert.deepEqual(await next.stat('key'), info)
    await next.close()
  })

  runner.it('a sweep removes expired blobs and what dead writers left, and nothing else', async () => {
    let time = 1_700_000_000_000
    const path = folder()
    const blobs = new FolderBlobs(path, { now: () => time })
    await blobs.put('short', text('a'), { ttlMs: 1000 })
    await blobs.put('long', text('b'), { ttlMs: 9000 })
    await writeFile(join(path, 'other.txt'), 'not ours')
    await writeFile(join(path, 'dead.partial'), 'half')
    await writeFile(join(path, 'young.partial'), 'half')
    await utimes(join(path, 'dead.partial'), 1, 1)
    await utimes(join(path, 'young.partial'), time / 1000, time / 1000)
    time += 2000
    await blobs.sweep()
    const left = await readdir(path)
    assert.equal(left.length, 3)
    assert.ok(left.includes('other.txt') && left.includes('young.partial'))
    assert.ok(await blobs.stat('long'))
    await blobs.close()
    await assert.rejects(blobs.sweep(), isStoreUnavailable)
  })

  runner.it('sweeps by itself', async () => {
    const path = folder()
    const blobs = new FolderBlobs(path, { sweepMs: 100 })
    await blobs.put('key', text('a'), { ttlMs: 50 })
    const late = Date.now() + 5000
    while ((await readdir(path)).length > 0) {
      assert.ok(Date.now() < late, 'the expired blob is taken away')
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
    await blobs.close()
  })

  runner.it('a file that is truncated or has a foreign format is not a blob', async () => {
    const path = folder()
    const blobs = new FolderBlobs(path)
    await blobs.put('key', text('some content'), { ttlMs: 60_000 })
    const [name = ''] = await readdir(path)
    for (const length of [70, 64, 10, 0]) {
      await truncate(join(path, name), length)
      assert.equal(await blobs.stat('key'), undefined)
      assert.equal(await blobs.open('key'), undefined)
    }
    await blobs.put('key', text('again'), { ttlMs: 60_000 })
    assert.equal((await blobs.stat('key'))?.size, 5)
    await blobs.close()
  })

  runner.it('a folder that was deleted is a failure, and does not count as empty', async () => {
    const path = folder()
    const blobs = new FolderBlobs(path)
    await rm(path, { recursive: true })
    await assert.rejects(blobs.put('key', text('a'), { ttlMs: 1000 }), isStoreUnavailable)
    await blobs.close()
  })

  runner.it('a full disk rejects a put as `full`, keeps nothing unfinished, and later accepts what fits', async () => {
    const path = folder()
    const program = `
      import { readdir } from 'node:fs/promises'
      import { FolderBlobs } from 'longhaul/files'
      const blobs = new FolderBlobs(${JSON.stringify(path)})
      async function* bytes(count) { for (let sent = 0; sent < count; sent += 65536) yield Buffer.alloc(65536) }
      const put = (key, count) => blobs.put(key, bytes(count), { ttlMs: 60000 })
        .then(({ size }) => size, ({ reason, message }) => ({ reason, message }))
      // A file may have no more than 512 KiB here; without this the system ends the process.
      process.on('SIGXFSZ', () => {})
      const told = [await put('large', 2 ** 21), await blobs.stat('large'), await put('small', 65536), (await readdir(${JSON.stringify(path)})).length]
      await blobs.close()
      console.log(JSON.stringify(told))
    `
    const { stdout } = await promisify(execFile)('sh', [
      '-c', 'ulimit -f 1024; exec "$0" "$@"', process.execPath, '--import', 'tsx', '--input-type=module', '-e', program,
    ], { cwd: join(import.meta.dirname, '../..') })
    assert.deepEqual(JSON.parse(stdout), [
      { reason: 'full', message: 'There is no space for more blobs' },
      null,
      65_536,
      1,
    ])
  })

  runner.it('the error of the disk decides the reason: `full` without space, otherwise `unavailable`', async (t) => {
    const path = folder()
    const blobs = new FolderBlobs(path)
    const probe = await open(join(path, 'probe'), 'w')
    const handles = Object.getPrototypeOf(probe) as FileHandle
    await probe.close()
    await rm(join(path, 'probe'))
    for (const [code, reason] of [['ENOSPC', 'full'], ['EDQUOT', 'full'], ['EIO', 'unavailable']]) {
      const write = t.mock.method(handles, 'write', () => Promise.reject(Object.assign(new Error(code), { code })))
      await assert.rejects(blobs.put('key', text('a'), { ttlMs: 60_000 }), { reason })
      write.mock.restore()
      assert.deepEqual([await readdir(path), await openBelow(path)], [[], 0])
    }
    await blobs.close()
  })

  runner.it('invalid options are rejected at construction', async () => {
    const path = folder()
    await mkdir(path)
    await writeFile(join(path, 'file'), '')
    await link(join(path, 'file'), join(path, 'link'))
    assert.throws(() => new FolderBlobs(join(path, 'file')), /name a folder/)
    assert.throws(() => new FolderBlobs(path, { sweepMs: 5 }), /sweepMs/)
    for (const maxBytes of [0, -1, 1.5, NaN]) assert.throws(() => new FolderBlobs(path, { maxBytes }), /maxBytes/)
  })
})
