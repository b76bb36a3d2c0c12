import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { lstatSync } from 'node:fs'
import { mkdir, open as openFile, rename, rm, symlink, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, test, type TestContext } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { fileSource, folderSource } from 'longhaul/files'
import type { FolderSourceOptions } from '../../../adapters/files/sources.js'
import { toFetch } from '../../../adapters/fetch/index.js'
import { content } from '../../../src/content/content.js'
import { closed, folder, openBelow, piece, rawStatus, serve, type Site } from '../kit/content.js'
import { ask } from '../kit/wire.js'

interface Tree extends Site {
  readonly root: string
  readonly outside: string
  readonly status: (path: string) => Promise<number>
}

/** `root` with some files, beside files that nobody may see. */
async function tree(t: TestContext, options: FolderSourceOptions = {}): Promise<Tree> {
  const base = await folder(t)
  const root = join(base, 'root')
  const outside = join(base, 'outside')
  await mkdir(join(root, 'deep/er'), { recursive: true })
  await mkdir(join(root, '.git'))
  await mkdir(outside)
  const files = [
    'root/a.txt', 'root/deep/er/b.json', 'root/ä €.csv', 'root/.env', 'root/.git/config',
    'outside/secret.txt', 'root/..odd', 'root/50%.txt',
  ]
  for (const file of files) await writeFile(join(base, file), `<${file}>`)
  await symlink(outside, join(root, 'out'))
  await symlink(join(outside, 'secret.txt'), join(root, 'secret.txt'))
  await symlink('deep', join(root, 'in'))
  await symlink('loop', join(root, 'loop'))
  const site = await serve(t, content(folderSource(root, options)), '/files')
  return { ...site, root, outside, status: (path) => rawStatus(site.port, path) }
}

describe('a folder', () => {
  test('serves its files with their type, their tag and their date', async (t) => {
    const { port, root } = await tree(t)
    await utimes(join(root, 'a.txt'), 1_700_000_000, 1_700_000_000)
    const answer = await ask(port, 'GET', '/files/a.txt?v=1')
    assert.equal(answer.body, '<root/a.txt>')
    assert.equal(answer.headers['content-type'], 'text/plain; charset=utf-8')
    assert.equal(answer.headers['last-modified'], 'Tue, 14 Nov 2023 22:13:20 GMT')
    assert.match(answer.headers.etag ?? '', /^"[\w-]{22}"$/)
    assert.equal(answer.headers['content-length'], '12')
    assert.equal((await ask(port, 'GET', '/files/deep/er/b.json')).headers['content-type'], 'application/json')
    assert.equal((await ask(port, 'GET', '/files/%C3%A4%20%E2%82%AC.csv')).body, '<root/ä €.csv>')
    assert.equal((await ask(port, 'GET', '/files/50%25.txt')).body, '<root/50%.txt>')
    assert.equal(
      (await ask(port, 'GET', '/files/a.txt', { headers: { 'if-none-match': answer.headers.etag } })).status,
      304,
    )
    assert.equal(
      (
        await ask(port, 'GET', '/files/a.txt', {
          headers: { 'range': 'bytes=-2', 'if-range': answer.headers['last-modified'] },
        })
      ).body,
      't>',
    )
    assert.equal((await ask(port, 'HEAD', '/files/a.txt')).headers['content-length'], '12')
    assert.equal((await ask(port, 'PUT', '/files/a.txt')).status, 405)
  })

  test('serves no path outside', async (t) => {
    const { status } = await tree(t, { hidden: true, symlinks: 'inside' })
    assert.equal(await status('/files/a.txt'), 200)
    const targets = [
      '/files/../outside/secret.txt',
      '/files/deep/../../outside/secret.txt',
      '/files/%2e%2e/outside/secret.txt',
      '/files/..%2foutside%2fsecret.txt',
      '/files/%2e%2e%2foutside%2fsecret.txt',
      '/files/..%5coutside%5csecret.txt',
      '/files/..\\outside\\secret.txt',
      '/files//etc/passwd',
      '/files/%2fetc%2fpasswd',
      '/files/%252e%252e/outside/secret.txt',
      '/files/./a.txt',
      '/files/deep/../a.txt',
      '/files/a.txt%00',
      '/files/a.txt%00.json',
      '/files/%00',
      '/files/a.txt/',
      '/files/a.txt/.',
      '/files/a.txt/b',
      '/files//a.txt',
      '/files/deep//er/b.json',
      '/files/',
      '/files',
      '/files/deep',
      '/files/deep/',
      '/filesa.txt',
      '/files/out/secret.txt',
      '/files/secret.txt',
      '/files/loop',
      `/files/${'x'.repeat(300)}`,
      `/files/${'x/'.repeat(3000)}y`,
      '/files/none.txt',
      '/files/%c0%ae%c0%ae/outside/secret.txt',
      '/files/..;/outside/secret.txt',
      '/files/~root',
      'http://x/files/../outside/secret.txt',
    ]
    for (const target of targets) assert.match(String(await status(target)), /^4(?:04|00)$/, target.slice(0, 60))
    assert.equal(await status('/files/%zz'), 400)
    assert.equal(await status('/files/%c3'), 400)
  })

  test('responds with 404 for hidden files, unless the option allows them', async (t) => {
    const shy = await tree(t)
    for (const path of ['/files/.env', '/files/.git/config', '/files/..odd', '/files/%2eenv'])
      assert.equal(await shy.status(path), 404, path)
    const open = await tree(t, { hidden: true })
    for (const path of ['/files/.env', '/files/.git/config', '/files/..odd'])
      assert.equal(await open.status(path), 200, path)
  })

  test('follows symbolic links as configured', async (t) => {
    const seen = async (symlinks: 'refuse' | 'inside' | 'follow'): Promise<number[]> => {
      const { status } = await tree(t, { symlinks })
      return Promise.all(
        ['/files/in/er/b.json', '/files/out/secret.txt', '/files/secret.txt', '/files/loop'].map(status),
      )
    }
    assert.deepEqual(await seen('refuse'), [404, 404, 404, 404])
    assert.deepEqual(await seen('inside'), [200, 404, 404, 404])
    assert.deepEqual(await seen('follow'), [200, 200, 200, 404])
    assert.throws(() => folderSource('.', { symlinks: 'yes' as 'follow' }), /refuse/)
  })

  test('may itself be a link, which may lead elsewhere later', async (t) => {
    const base = await folder(t)
    for (const version of ['1', '2']) {
      await mkdir(join(base, version))
      await writeFile(join(base, version, 'a.txt'), `version ${version}`)
    }
    await symlink('1', join(base, 'current'))
    const { port } = await serve(t, content(folderSource(join(base, 'current'))))
    assert.equal((await ask(port, 'GET', '/a.txt')).body, 'version 1')
    await symlink('2', join(base, 'next'))
    await rename(join(base, 'next'), join(base, 'current'))
    assert.equal((await ask(port, 'GET', '/a.txt')).body, 'version 2')
  })

  test('serves regular files only, and responds with 404 for a pipe', async (t) => {
    const { root, status } = await tree(t)
    execFileSync('mkfifo', [join(root, 'pipe')])
    assert.ok(lstatSync(join(root, 'pipe')).isFIFO())
    assert.equal(await status('/files/pipe'), 404)
  })

  test('throws at construction if it is not a folder', async (t) => {
    const base = await folder(t)
    assert.throws(() => folderSource(join(base, 'none')), /is no folder/)
    await writeFile(join(base, 'file'), '')
    assert.throws(() => folderSource(join(base, 'file')), TypeError)
  })

  test('uses names, types and tags from the application', async (t) => {
    const { port } = await tree(t, {
      path: ({ query }) => query.get('f') ?? undefined,
      types: { txt: 'text/x-own' },
      etag: ({ path, stats }) => `"${path.length > 0 ? 'own' : ''}-${stats.size}"`,
    })
    const answer = await ask(port, 'GET', '/files/?f=a.txt')
    assert.equal(answer.headers['content-type'], 'text/x-own')
    assert.equal(answer.headers.etag, '"own-12"')
    for (const name of ['../outside/secret.txt', '/etc/passwd', '', 'deep', '.env', 'out/secret.txt']) {
      assert.equal((await ask(port, 'GET', `/files/?f=${encodeURIComponent(name)}`)).status, 404, name)
    }
    assert.equal((await ask(port, 'GET', '/files/')).status, 404)
  })

  test('never serves a file outside while a name is replaced by a link again and again', async (t) => {
    const { port, root, outside } = await tree(t, { symlinks: 'refuse' })
    const good = join(root, 'flip')
    await mkdir(join(root, 'good'))
    await writeFile(join(root, 'good/secret.txt'), '<inside>')
    let flipping = true
    let round = 0
    const flipper = (async () => {
      await rename(join(root, 'good'), good)
      while (flipping) {
        await rename(good, join(root, 'good'))
        await symlink(outside, good)
        await rm(good)
        await rename(join(root, 'good'), good)
        await pause(round++ % 3)
      }
    })()
    let inside = 0
    for (let asked = 0; asked < 300; asked++) {
      const answer = await ask(port, 'GET', '/files/flip/secret.txt')
      assert.ok(!answer.body.includes('outside'), answer.body)
      if (answer.status === 200) inside++
      else assert.ok([404, 503].includes(answer.status), String(answer.status))
    }
    flipping = false
    await flipper
    assert.ok(inside > 0, 'some were served')
    assert.equal(await openBelow(root), 0)
  })
})

describe('a file', () => {
  test('is read again for each request', async (t) => {
    const path = join(await folder(t), 'x.bin')
    const { port } = await serve(
      t,
      content(fileSource(path, { type: 'application/x-own', name: 'other name.bin' }), { disposition: 'attachment' }),
    )
    assert.equal((await ask(port, 'GET', '/')).status, 404)
    await writeFile(path, 'one')
    const first = await ask(port, 'GET', '/')
    assert.equal(first.body, 'one')
    assert.equal(first.headers['content-type'], 'application/x-own')
    assert.equal(first.headers['content-disposition'], 'attachment; filename="other name.bin"')
    await writeFile(path, '')
    assert.deepEqual(
      [(await ask(port, 'GET', '/')).status, (await ask(port, 'GET', '/')).headers['content-length']],
      [200, '0'],
    )
    await rm(path)
    assert.equal((await ask(port, 'GET', '/')).status, 404)
    await mkdir(path)
    assert.equal((await ask(port, 'GET', '/')).status, 404)
  })

  test('has another tag after any change, even with the same size, time and name', async (t) => {
    const path = join(await folder(t), 'x.bin')
    const { port } = await serve(t, content(fileSource(path)))
    const tags = new Set<string>()
    for (let round = 0; round < 10; round++) {
      await writeFile(path, `round ${round}`)
      await utimes(path, 1_700_000_000, 1_700_000_000)
      const { headers } = await ask(port, 'HEAD', '/')
      assert.equal(headers['last-modified'], 'Tue, 14 Nov 2023 22:13:20 GMT')
      tags.add(headers.etag ?? '')
      const again = await piece(port, '/', { 'range': 'bytes=6-', 'if-range': headers.etag ?? '' })
      assert.deepEqual([again.status, again.bytes.toString()], [206, String(round)])
    }
    assert.equal(tags.size, 10)
  })

  test('is sent as a whole if it has changed since the tag or the date of the request', async (t) => {
    const path = join(await folder(t), 'x.bin')
    const { port } = await serve(t, content(fileSource(path)))
    await writeFile(path, 'old content')
    await utimes(path, 1_700_000_000, 1_700_000_000)
    const { headers } = await ask(port, 'GET', '/')
    await writeFile(path, 'new content')
    for (const validator of [headers.etag, headers['last-modified']]) {
      const answer = await ask(port, 'GET', '/', { headers: { 'range': 'bytes=4-', 'if-range': validator } })
      assert.deepEqual([answer.status, answer.body], [200, 'new content'])
    }
  })
})

test('a sparse file of 6 GiB is served at positions beyond 2^32', async (t) => {
  const path = join(await folder(t), 'x.bin')
  const size = 6 * 1024 ** 3
  const file = await openFile(path, 'w')
  await file.truncate(size)
  await file.write(Buffer.from('here'), 0, 4, 5 * 1024 ** 3)
  await file.close()
  const { port } = await serve(t, content(fileSource(path)))
  const at = 5 * 1024 ** 3
  const part = await piece(port, '/', { range: `bytes=${at - 1}-${at + 4}` })
  assert.deepEqual([part.status, part.bytes.toString()], [206, '\0here\0'])
  assert.equal(part.headers['content-range'], `bytes ${at - 1}-${at + 4}/${size}`)
  assert.equal((await piece(port, '/', { range: 'bytes=-5' })).bytes.byteLength, 5)
  assert.equal((await ask(port, 'HEAD', '/')).headers['content-length'], String(size))
})

test('a fetch-style server serves a folder', async (t) => {
  const base = await folder(t)
  await writeFile(join(base, 'a.txt'), '0123456789')
  const handle = toFetch(content(folderSource(base)), { mountPath: '/files' })
  const get = (path: string, init: RequestInit = {}): Promise<Response> => handle(new Request(`http://x${path}`, init))
  const whole = await get('/files/a.txt')
  assert.deepEqual([whole.status, whole.headers.get('content-length'), await whole.text()], [200, '10', '0123456789'])
  const part = await get('/files/a.txt', {
    headers: { 'range': 'bytes=2-4', 'if-range': whole.headers.get('etag') ?? '' },
  })
  assert.deepEqual([part.status, part.headers.get('content-range'), await part.text()], [206, 'bytes 2-4/10', '234'])
  const head = await get('/files/a.txt', { method: 'HEAD' })
  assert.deepEqual([head.status, head.headers.get('content-length'), await head.text()], [200, '10', ''])
  assert.equal((await get('/files/none')).status, 404)
  // Not read, then left.
  await (await get('/files/a.txt')).body?.cancel()
  await closed(base)
})
