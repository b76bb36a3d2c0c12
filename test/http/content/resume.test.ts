import assert from 'node:assert/strict'
import { randomBytes, randomInt } from 'node:crypto'
import { execFile } from 'node:child_process'
import { readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { promisify } from 'node:util'
import ts from 'typescript'
import { fileSource } from 'longhaul/files'
import { content } from '../../../src/content/content.js'
import type { ContentSource } from '../../../src/content/source.js'
import { closed, folder, piece, serve, sha256, type Site } from '../kit/content.js'
import { blocks } from '../kit/doc-page.js'

const SIZE = 3 * 1024 * 1024 + 17

async function large(t: TestContext): Promise<Site & { path: string, bytes: Buffer }> {
  const base = await folder(t)
  const path = join(base, 'large.bin')
  const bytes = randomBytes(SIZE)
  await writeFile(path, bytes)
  return { ...await serve(t, content(fileSource(path))), path, bytes }
}

test('a client that is cut at 20 random places ends with the same bytes, and no descriptor stays open', async (t) => {
  const { port, path, bytes } = await large(t)
  let etag = ''
  let got = Buffer.alloc(0)
  const cuts = Array.from({ length: 20 }, () => randomInt(1, SIZE)).sort((a, b) => a - b)
  for (const cut of [...cuts, Infinity]) {
    if (cut === got.byteLength) continue
    const resumed = got.byteLength > 0
    const part = await piece(
      port,
      '/',
      resumed ? { 'range': `bytes=${got.byteLength}-`, 'if-range': etag } : {},
      cut - got.byteLength,
    )
    assert.equal(part.status, resumed ? 206 : 200)
    if (resumed) assert.equal(part.headers['content-range'], `bytes ${got.byteLength}-${SIZE - 1}/${SIZE}`)
    assert.equal(part.headers['content-length'], String(SIZE - got.byteLength))
    etag = part.headers.etag ?? ''
    got = Buffer.concat([got, part.bytes])
  }
  assert.equal(sha256(got), sha256(bytes), `cut at ${cuts.join(', ')}`)
  await closed(path)
})

test('curl -C - resumes with Range alone, and gets 416 at the end', async (t) => {
  const { port, bytes } = await large(t)
  const first = await piece(port, '/', {}, 1_000_000)
  const second = await piece(port, '/', { range: 'bytes=1000000-' })
  assert.equal(second.status, 206)
  assert.ok(second.whole)
  assert.equal(sha256(Buffer.concat([first.bytes, second.bytes])), sha256(bytes))
  const third = await piece(port, '/', { range: `bytes=${SIZE}-` })
  assert.equal(third.status, 416)
  assert.equal(third.headers['content-range'], `bytes */${SIZE}`)
})

test('a file that is replaced between two parts is sent again as a whole', async (t) => {
  const { port, path } = await large(t)
  const first = await piece(port, '/', {}, 1_234_567)
  const newer = randomBytes(SIZE)
  await writeFile(`${path}.new`, newer)
  await rename(`${path}.new`, path)
  const second = await piece(port, '/', { 'range': 'bytes=1234567-', 'if-range': first.headers.etag ?? '' })
  assert.equal(second.status, 200)
  assert.equal(sha256(second.bytes), sha256(newer))
})

test('parts that several clients request at the same time come from one version', async (t) => {
  const { port, bytes, path } = await large(t)
  const parts = await Promise.all(Array.from({ length: 16 }, async (_, index) => {
    const start = index * 200_000
    const end = index === 15 ? SIZE - 1 : start + 199_999
    return (await piece(port, '/', { range: `bytes=${start}-${end}` })).bytes
  }))
  assert.equal(sha256(Buffer.concat(parts)), sha256(bytes))
  await closed(path)
})

test('each part of multipart/byteranges of a file has the bytes of its range', async (t) => {
  const { port, bytes } = await large(t)
  const answer = await piece(port, '/', { range: 'bytes=2000000-2100000,0-99,-100' })
  assert.equal(answer.status, 206)
  assert.ok(answer.whole)
  assert.equal(answer.headers['content-length'], String(answer.bytes.byteLength))
  const boundary = /boundary=(.+)$/.exec(answer.headers['content-type'] ?? '')?.[1] ?? ''
  const parts = answer.bytes.toString('latin1').split(`--${boundary}`)
  assert.equal(parts.length, 5)
  const expected = [[2_000_000, 2_100_001], [0, 100], [SIZE - 100, SIZE]] as const
  for (const [index, [start, end]] of expected.entries()) {
    const [head = '', ...rest] = (parts[index + 1] ?? '').split('\r\n\r\n')
    assert.match(head, new RegExp(`Content-Range: bytes ${start}-${end - 1}/${SIZE}$`))
    const body = Buffer.from(rest.join('\r\n\r\n').slice(0, -2), 'latin1')
    assert.equal(sha256(body), sha256(bytes.subarray(start, end)))
  }
})

test('curl resumes a download that was cut', async (t) => {
  const { port, path, bytes } = await large(t)
  const out = `${path}.out`
  await writeFile(out, bytes.subarray(0, 777_777))
  await promisify(execFile)('curl', [
    '--silent',
    '--show-error',
    '--fail',
    '--noproxy',
    '*',
    '-C',
    '-',
    '-o',
    out,
    `http://127.0.0.1:${port}/`,
  ])
  assert.equal(sha256(await readFile(out)), sha256(bytes))
})

test('the fetch example of the guide completes its download despite cuts and a change', async (t) => {
  const base = await folder(t)
  const path = join(base, 'x.bin')
  const versions = [randomBytes(2_000_000), randomBytes(1_900_000)] as const
  await writeFile(path, versions[0])
  const find = fileSource(path)
  let served = 0
  const { port } = await serve(t, content(async (request) => {
    const found = await find(request)
    const round = served++
    if (round === 1) await writeFile(path, versions[1])
    return found && round < 2
      ? { ...found, open: (start: number) => failing(found.open(start, start + 500_000)) }
      : found
  }))
  const page = await readFile(join(import.meta.dirname, '../../../docs/guide/files.md'), 'utf8')
  const snippet = blocks(page, 'ts').find((block) => block.startsWith('// download.ts')) ?? ''
  const script = ts.transpile(snippet, { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2023 })
  const { download } = await import(`data:text/javascript,${encodeURIComponent(script)}`) as {
    download: (url: string, take: (bytes: Uint8Array, at: number) => void) => Promise<void>
  }
  const got = Buffer.alloc(2_000_000)
  await download(`http://127.0.0.1:${port}/`, (part, at) => { got.set(part, at) })
  assert.equal(sha256(got.subarray(0, 1_900_000)), sha256(versions[1]))
  assert.ok(served >= 3, `${served} requests`)
})

async function* failing(part: ReturnType<ContentSource['open']>): AsyncGenerator<Uint8Array> {
  yield* await part
  throw new Error('cut')
}
