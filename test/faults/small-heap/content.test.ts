import assert from 'node:assert/strict'
import { createHash, randomBytes, randomInt } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdtemp, open as openFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { ask, open } from '../../http/kit/wire.js'
import { SmallProcess } from '../kit/small-process.js'
import { whilePinging } from './upload.js'

const MIB = 1 << 20
/** `npm run test:large` serves more than 32 bits can count. */
const SIZE = process.env['LONGHAUL_LARGE'] === undefined ? 96 * MIB + 17 : 5 * 1024 * MIB + 17

describe('a large file from a process with a heap of 64 MiB', () => {
  let folder = ''
  let path = ''
  let server: SmallProcess
  let whole = ''

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'longhaul-'))
    path = join(folder, 'large.bin')
    // Each MiB begins with bytes of its own, and holes follow: no place can be taken for another,
    // and the disk is spared.
    const file = await openFile(path, 'w')
    for (let at = 0; at < SIZE; at += MIB) await file.write(randomBytes(16), 0, Math.min(16, SIZE - at), at)
    await file.truncate(SIZE)
    await file.close()
    const hash = createHash('sha256')
    for await (const chunk of createReadStream(path, { highWaterMark: MIB })) hash.update(chunk as Buffer)
    whole = hash.digest('hex')
    process.env['LONGHAUL_TEST_FILE'] = path
    server = await SmallProcess.start('content-server.ts')
  })
  after(async () => {
    await server.stop()
    await rm(folder, { recursive: true, force: true })
  })

  test('SPEC 4.5: a slow client that is cut at 20 random places gets the whole file in the end, and other clients are served meanwhile', async () => {
    const cuts = [...Array.from({ length: 20 }, () => randomInt(1, SIZE)).sort((a, b) => a - b), SIZE]
    const hash = createHash('sha256')
    await whilePinging(
      server.port,
      (async () => {
        let at = 0
        let etag = ''
        let rests = 0
        for (const cut of cuts) {
          if (cut === at) continue
          const response = await open(server.port, 'GET', '/file', {
            headers: at === 0 ? {} : { 'range': `bytes=${at}-`, 'if-range': etag },
          })
          assert.equal(response.statusCode, at === 0 ? 200 : 206)
          assert.equal(response.headers['content-length'], String(SIZE - at))
          etag = response.headers.etag ?? ''
          for await (const chunk of response as AsyncIterable<Buffer>) {
            const kept = chunk.subarray(0, cut - at)
            hash.update(kept)
            at += kept.byteLength
            if (at === cut) break
            if (at > rests * 16 * MIB) {
              rests++
              await sleep(10)
            }
          }
          assert.equal(at, cut)
          response.destroy()
        }
      })(),
    )
    assert.equal(hash.digest('hex'), whole, `cut at ${cuts.join(', ')}`)
  })

  test('SPEC 4.5: a range at the end returns the last bytes and no more', async () => {
    const { status, headers } = await ask(server.port, 'GET', '/file', { headers: { range: 'bytes=-17' } })
    assert.deepEqual([status, headers['content-range']], [206, `bytes ${SIZE - 17}-${SIZE - 1}/${SIZE}`])
    assert.equal((await ask(server.port, 'GET', '/file', { headers: { range: `bytes=${SIZE}-` } })).status, 416)
    assert.equal((await ask(server.port, 'HEAD', '/file')).headers['content-length'], String(SIZE))
  })

  test('the process uses little memory', async () => {
    const { maxRss } = await server.memory()
    assert.ok(maxRss < 300 * MIB, `${Math.round(maxRss / MIB)} MiB`)
  })
})
