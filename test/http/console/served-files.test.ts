// How the page at / and its files are served; what the page does is in the console-…-chromium tests.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { request, type IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { text as readText } from 'node:stream/consumers'
import { describe, test } from 'node:test'
import { parseTokens } from '../../../examples/reference-server/auth.js'
import { DEMO_TOKENS, publicTokens } from '../../../examples/reference-server/config.js'
import { CONSOLE_FOLDER } from '../../../examples/reference-server/console-files.js'
import { startServer } from '../../../examples/reference-server/server.js'
import { useReference, type Answer } from '../kit/reference.js'

const server = useReference()
const BROWSER = 'text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8'
const open = (method: string, path: string, headers: Record<string, string> = {}): Promise<Answer> =>
  server.ask(method, path, { token: null, headers })

/** Sends path and Host as they are; `fetch` has its own mind about both. */
async function raw(path: string, headers: Record<string, string> = {}): Promise<{ status: number, text: string }> {
  const { port } = new URL(server.url)
  const [answer] = (await once(request({ port, host: '127.0.0.1', path, headers }).end(), 'response')) as [
    IncomingMessage,
  ]
  return { status: answer.statusCode ?? 0, text: await readText(answer) }
}

/** The folders of longhaul/console and of the panels of the reference server. */
const FOLDERS = [join(import.meta.dirname, '../../../adapters/console/page'), CONSOLE_FOLDER]
const PLACES = new Map(FOLDERS.flatMap((folder) => (
  readdirSync(folder).filter((name) => /\.(?:js|css|svg)$/.test(name)).map((name) => [name, join(folder, name)] as const)
)))
const FILES = [...PLACES.keys()]
const sourceOf = (name: string): string => readFileSync(PLACES.get(name) ?? '', 'utf8')

describe('the front page', () => {
  test('is the console for a browser, and an overview for a client that accepts text, and responds with 406 to others', async () => {
    const [browser, anything, text, json] = await Promise.all(
      [BROWSER, '*/*', 'text/plain', 'application/json'].map((accept) => open('GET', '/', { accept })),
    )
    assert.equal(browser?.headers.get('content-type'), 'text/html; charset=utf-8')
    assert.match(browser.text, /^<!doctype html>/)
    assert.equal(anything?.text, browser.text)
    assert.equal(text?.headers.get('content-type'), 'text/plain; charset=utf-8')
    assert.equal(json?.status, 406)
    const { paths } = (await open('GET', '/openapi.json')).json as {
      paths: Record<string, Record<string, { summary: string }>>
    }
    for (const [path, item] of Object.entries(paths)) {
      for (const [method, { summary }] of Object.entries(item)) {
        if (method === 'head' || method === 'options') continue
        const route = `${method.toUpperCase()} ${path}`
        assert.ok(
          browser.text.includes(
            `<code>${route}</code></td><td>${summary.replaceAll('&', '&amp;').replaceAll('<', '&lt;')}<`,
          ),
          route,
        )
        assert.ok(text.text.split('\n').some((line) => line.startsWith(`  ${route} `) && line.endsWith(summary)), route)
      }
    }
    for (const { text: page } of [browser, text]) {
      assert.ok(page.includes(`${server.url}/api/long-running-task`))
      assert.doesNotMatch(page, /\{\{/)
    }
  })

  test('may load only its own files and nothing inline, and cannot be shown in a frame', async () => {
    const { headers, text } = await open('GET', '/', { accept: BROWSER })
    assert.equal(
      headers.get('content-security-policy'),
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    )
    assert.deepEqual(
      ['x-content-type-options', 'referrer-policy', 'cross-origin-opener-policy'].map((name) => headers.get(name)),
      ['nosniff', 'no-referrer', 'same-origin'],
    )
    assert.equal(headers.get('link'), '</openapi.json>; rel="service-desc"; type="application/json"')
    assert.doesNotMatch(text, /<style|<script>| on[a-z]+=| style=|(?:src|href)="(?:https?:)?\/\//)
  })

  test('is sent again only if it has changed, and supports HEAD, OPTIONS, 405 and ranges', async () => {
    const whole = await open('GET', '/', { 'accept': BROWSER, 'accept-encoding': 'identity' })
    const etag = whole.headers.get('etag') ?? ''
    assert.match(etag, /^"[\w-]{22}"$/)
    assert.equal(whole.headers.get('cache-control'), 'no-cache')
    assert.equal(whole.headers.get('vary'), 'Accept-Encoding, Accept, Host')
    const known = { 'accept-encoding': 'identity', 'if-none-match': etag }
    const again = await open('GET', '/', { accept: BROWSER, ...known })
    assert.deepEqual(
      [again.status, again.text, again.headers.get('etag'), again.headers.get('vary')],
      [304, '', etag, 'Accept-Encoding, Accept, Host'],
    )
    assert.equal((await open('GET', '/', { accept: 'text/plain', ...known })).status, 200)
    assert.equal((await raw('/', { accept: BROWSER, ...known, host: 'other.example' })).status, 200)

    const packed = await open('GET', '/', { 'accept': BROWSER, 'accept-encoding': 'br' })
    assert.deepEqual([packed.headers.get('content-encoding'), packed.text], ['br', whole.text])
    const head = await open('HEAD', '/', { 'accept': BROWSER, 'accept-encoding': 'identity' })
    assert.deepEqual(
      [head.status, head.text, head.headers.get('content-length')],
      [200, '', String(Buffer.byteLength(whole.text))],
    )
    const part = await open('GET', '/', { accept: BROWSER, range: 'bytes=0-14' })
    assert.deepEqual([part.status, part.text], [206, '<!doctype html>'])
    const options = await open('OPTIONS', '/')
    assert.deepEqual([options.status, options.headers.get('allow')], [200, 'GET, HEAD, OPTIONS'])
    assert.equal((await open('POST', '/')).status, 405)
  })

  test('contains nothing that a client puts into the Host header', async () => {
    assert.match(
      (await raw('/', { host: 'api.example:8080' })).text,
      / http:\/\/api\.example:8080\/api\/long-running-task</,
    )
    for (const host of ['x"><script>alert(1)</script>', "a' b", '$&', '\xe9']) {
      const { status, text } = await raw('/', { accept: BROWSER, host })
      assert.ok(status === 400 || text.includes('http://127.0.0.1:3000/api/long-running-task'), host)
      assert.doesNotMatch(text, /alert\(1\)/)
    }
  })
})

describe('the files of the console', () => {
  test('are public, and each has its type and is cached', async () => {
    assert.ok(FILES.length > 10)
    for (const name of [...FILES, 'longhaul-client.js']) {
      const { status, headers, text } = await open('GET', `/console/${name}`, { 'accept-encoding': 'identity' })
      assert.equal(status, 200, name)
      assert.match(
        headers.get('content-type') ?? '',
        name.endsWith('.js') ? /^text\/javascript/ : name.endsWith('.css') ? /^text\/css/ : /^image\/svg\+xml/,
      )
      assert.deepEqual([headers.get('cache-control'), headers.get('x-content-type-options')], ['no-cache', 'nosniff'])
      assert.match(headers.get('content-security-policy') ?? '', /^default-src 'none'/)
      const again = await open('GET', `/console/${name}`, {
        'accept-encoding': 'identity',
        'if-none-match': headers.get('etag') ?? '',
      })
      assert.deepEqual([again.status, again.text], [304, ''], name)
      if (FILES.includes(name)) assert.equal(text, sourceOf(name))
    }
    assert.equal((await open('HEAD', '/console/longhaul-client.js')).status, 200)
  })

  test('exist if the page names them, and no script contains another host', async () => {
    const { text } = await open('GET', '/', { accept: BROWSER })
    const named = [...text.matchAll(/(?:src|href)="(\/console\/[^"]+)"/g)].map(([, path]) => path ?? '')
    assert.ok(named.length >= 5)
    for (const path of named) assert.equal((await open('HEAD', path)).status, 200, path)
    for (const name of FILES.filter((each) => !each.endsWith('.svg'))) {
      const source = sourceOf(name)
      assert.doesNotMatch(source, /https?:\/\/|innerHTML|outerHTML|insertAdjacentHTML|\beval\(|document\.write/, name)
      for (const [, imported] of source.matchAll(/from '([^']+)'/g))
        assert.ok(
          FILES.includes(imported?.slice(2) ?? '') || imported === './longhaul-client.js',
          `${name} imports ${imported ?? ''}`,
        )
    }
  })

  test('are the only files that are served, and no path leads out of the folder', async () => {
    for (const name of [
      'page.html', 'tasks.html', 'upload.html', 'overview.txt', 'none.js', '..%2fauth.ts', '%2e%2e', '.git', 'Dom.js',
      'dom.js.map', '../auth.ts', '..', 'style.css%00.js', '',
    ]) {
      const { status, text } = await raw(`/console/${name}`)
      assert.ok(status === 404 || status === 400, `${name}: ${status}`)
      assert.doesNotMatch(text, /doctype|import/)
    }
  })
})

describe('demo tokens', () => {
  const offered = async (tokens: string): Promise<string | undefined> => {
    const own = await startServer({ host: '127.0.0.1', port: 0, tokens: parseTokens(tokens) })
    try {
      return /data-tokens="([^"]*)"/.exec(await (await fetch(own.url)).text())?.[1]
    } finally {
      await own.stop()
    }
  }

  test('are offered if they are in use', async () => {
    assert.equal(await offered(DEMO_TOKENS), 'demo-reader demo-writer demo-admin')
  })

  test('are not offered if they are not in use, and a token that begins like a demo token is never offered', async () => {
    assert.equal(await offered('s3cret=ann:writer,demo-of-ours=bob:admin,demo-reader=eve:reader'), 'demo-reader')
    assert.match((await open('GET', '/')).text, /data-tokens=""/)
    assert.deepEqual(publicTokens(parseTokens('demo-writer-2=x:writer')), [])
  })
})
