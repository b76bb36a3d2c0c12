// Uploads from a page of another origin in a real browser: by longhaul/client, and by tus-js-client.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import type * as Longhaul from '../../../src/client/index.js'
import type * as Tus from 'tus-js-client'
import { openBrowser } from '../../servers/chromium.js'
import { bundled } from '../../unit/kit/bundle.js'
import { root } from '../kit/process.js'
import { CuttingProxy, open } from '../kit/uploads.js'
import { listen } from '../../kit/listen.js'

declare const longhaul: typeof Longhaul
declare const tus: typeof Tus

const SIZE = 1_000_000
/** The content that the page makes: byte `at` is `at * 7 % 251`. */
const content = Buffer.from(Uint8Array.from({ length: SIZE }, (_, at) => at * 7 % 251))
const sha256 = createHash('sha256').update(content).digest('hex')
const CUTS = [3000, 200_000, 3000, 150_000, 60_000]

let browser: Browser
let page: Page
/** Serves the page, on another origin than that of the uploads. */
let pages: Server
let site: Awaited<ReturnType<typeof open>>
const proxies: CuttingProxy[] = []

/** The address of the site over connections that break. */
async function breaking(): Promise<{ proxy: CuttingProxy, base: string }> {
  const proxy = await CuttingProxy.to(site.port, [...CUTS])
  proxies.push(proxy)
  return { proxy, base: `http://127.0.0.1:${proxy.port}/api` }
}

before(async () => {
  site = await open({ partBytes: 65_536 })
  const script = await bundled(`import * as longhaul from 'longhaul/client'
    // The compiler of these tests names the functions that it hands to the page.
    globalThis.__name = (named) => named
    globalThis.film = new Blob([Uint8Array.from({ length: ${SIZE} }, (_, at) => at * 7 % 251)], { type: 'video/mp4' })
    globalThis.longhaul = longhaul`, 'iife')
  const tusScript = readFileSync(join(root, 'node_modules/tus-js-client/dist/tus.min.js'), 'utf8')
  browser = await openBrowser()
  page = await browser.newPage()
  const scripts = [script, tusScript]
    .map((text) => `<script>${text.replaceAll('</script', '<\\/script')}</script>`)
    .join('')
  pages = createServer((_, res) => {
    res.setHeader('content-type', 'text/html').end(`<!doctype html><title>uploads</title>${scripts}`)
  })
  await page.goto(`http://127.0.0.1:${(await listen(pages)).port}/`)
})
after(async () => {
  await browser.close()
  pages.close()
  for (const proxy of proxies) proxy.close()
  await site.close()
})

describe('an upload from Chromium', () => {
  test('has progress, pause and resume in client.uploadFile, and survives connections that break', async () => {
    const { proxy, base } = await breaking()
    const seen = await page.evaluate(async (base) => {
      const client = longhaul.createClient({ baseUrl: base, retry: { baseMs: 5, maxMs: 50 } })
      const progress: number[] = []
      const sending = client.uploadFile('/files', (globalThis as unknown as { film: Blob }).film, {
        chunkBytes: 300_000,
        onProgress: ({ sent }) => {
          progress.push(sent)
          if (sent === 0) return
          sending.pause()
          setTimeout(() => { sending.resume() }, 5)
        },
      })
      return { result: await sending.result(), progress, saved: JSON.stringify(sending) }
    }, base)
    assert.deepEqual(seen.result, { size: SIZE, sha256 })
    assert.ok(proxy.cuts >= 3, String(proxy.cuts))
    assert.equal(seen.progress.at(-1), SIZE)
    assert.deepEqual([...seen.progress].sort((a, b) => a - b), seen.progress)
    assert.match(seen.saved, /\/api\/uploads\//)
    assert.equal(site.seen.length, 1)
    assert.equal(site.seen[0]?.headers['content-type'], 'video/mp4')
  })

  for (const protocol of ['ietf-draft-03', 'ietf-draft-05'] as const) {
    test(`survives connections that break in tus-js-client, ${protocol}`, async () => {
      const before = site.seen.length
      const { proxy, base } = await breaking()
      const body = await page.evaluate(({ base, protocol }) => new Promise<string>((resolve, reject) => {
        const { film } = globalThis as unknown as { film: Blob }
        const options = {
          protocol, endpoint: `${base}/files`, retryDelays: Array<number>(20).fill(20), chunkSize: 300_000,
          onSuccess: ({ lastResponse }: { lastResponse: Tus.HttpResponse }) => { resolve(lastResponse.getBody()) },
          onError: reject,
        }
        new tus.Upload(film, options).start()
      }), { base, protocol })
      assert.deepEqual(JSON.parse(body), { size: SIZE, sha256 })
      assert.ok(proxy.cuts >= 3, String(proxy.cuts))
      assert.equal(site.seen.length, before + 1)
    })
  }
})
