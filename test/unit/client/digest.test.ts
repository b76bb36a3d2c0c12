// The client checks Repr-Digest (RFC 9530) of what it downloads.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, test, type TestContext } from 'node:test'
import fc from 'fast-check'
import { Sha256 } from '../../../src/client/digest.js'
import type { DownloadOptions } from '../../../src/client/download.js'
import { fakeServer, pieces } from '../kit/fake-server.js'

const CONTENT = Uint8Array.from({ length: 1000 }, (_, at) => at % 251)
const digestOf = (bytes: Uint8Array | string, name = 'sha-256'): string => (
  `${name}=:${createHash(name.replace('-', '')).update(bytes).digest('base64')}:`
)
const RIGHT = digestOf(CONTENT)
const WRONG = digestOf('something else')

interface Site {
  readonly digest?: string
  /** Bytes of each answer after which the connection breaks. */
  readonly breakAfter?: number[]
  readonly coding?: string
  readonly ranges?: boolean
}

function site({ digest, breakAfter = [], coding, ranges = true }: Site) {
  const { client, seen } = fakeServer((request) => {
    const [, from] = /^bytes=(\d+)-$/.exec(request.headers['range'] ?? '') ?? []
    const start = ranges ? Number(from ?? 0) : 0
    const limit = breakAfter.shift()
    const part = CONTENT.slice(start, limit === undefined ? undefined : start + limit)
    return new Response(pieces([part.slice(0, 100), part.slice(100)], limit !== undefined), {
      status: ranges ? 206 : 200,
      headers: {
        etag: '"a"',
        ...(ranges && { 'content-range': `bytes ${start}-999/1000` }),
        ...(digest !== undefined && { 'repr-digest': digest }),
        ...(coding !== undefined && { 'content-encoding': coding }),
      },
    })
  })
  return { seen, get: (options?: DownloadOptions) => client.download('/file', options) }
}

async function received(source: AsyncIterable<Uint8Array>): Promise<number> {
  let bytes = 0
  for await (const piece of source) bytes += piece.length
  return bytes
}

const mismatch = { name: 'ClientError', code: 'digest_mismatch' }

/** Hides node:crypto, as in a browser. */
function inBrowser(t: TestContext): void {
  const { getBuiltinModule } = process
  Object.assign(process, { getBuiltinModule: undefined })
  t.after(() => { Object.assign(process, { getBuiltinModule }) })
}

for (const place of ['Node', 'a browser']) {
  describe(`the Repr-Digest of a download in ${place}`, () => {
    test('is checked at the end of the content', async (t) => {
      if (place === 'a browser') inBrowser(t)
      assert.equal(await received(site({ digest: RIGHT }).get()), 1000)
      assert.equal(await received(site({ digest: `md5=:YWJj:, ${RIGHT}` }).get()), 1000)
      const { get, seen } = site({ digest: WRONG })
      await assert.rejects(received(get()), mismatch)
      assert.equal(seen.length, 1)
      await assert.rejects(site({ digest: WRONG }).get().blob(), mismatch)
    })

    test('is checked over all parts of a resumed download', async (t) => {
      if (place === 'a browser') inBrowser(t)
      for (const ranges of [true, false]) {
        assert.equal(await received(site({ digest: RIGHT, breakAfter: [300, 450], ranges }).get()), 1000)
        await assert.rejects(received(site({ digest: WRONG, breakAfter: [300], ranges }).get()), mismatch)
      }
    })

    test('is not checked if it belongs to other bytes than the received bytes', async (t) => {
      if (place === 'a browser') inBrowser(t)
      assert.equal(await received(site({ digest: WRONG }).get({ from: { received: 400, etag: '"a"' } })), 600)
      assert.equal(await received(site({ digest: WRONG, coding: 'x-own' }).get()), 1000)
      assert.equal(await received(site({ digest: 'md5=:YWJj:' }).get()), 1000)
      assert.equal(await received(site({ digest: 'sha-256=nonsense' }).get()), 1000)
    })

    test('is checked with sha-512 if the platform can hash pieces', async (t) => {
      if (place === 'a browser') inBrowser(t)
      const download = received(site({ digest: digestOf('something else', 'sha-512') }).get())
      if (place === 'a browser') assert.equal(await download, 1000)
      else await assert.rejects(download, mismatch)
      assert.equal(await received(site({ digest: digestOf(CONTENT, 'sha-512') }).get()), 1000)
    })
  })
}

test('SHA-256 of any bytes, however they are cut, equals that of node:crypto', () => {
  fc.assert(fc.property(fc.array(fc.uint8Array({ maxLength: 200 }), { maxLength: 8 }), (all) => {
    const hash = new Sha256()
    const expected = createHash('sha256')
    for (const bytes of all) {
      hash.update(bytes)
      expected.update(bytes)
    }
    assert.equal(hash.digest(), expected.digest('base64'))
  }), { numRuns: 500 })
})
