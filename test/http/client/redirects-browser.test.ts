// Redirects in a page of a real browser, which does not tell where they lead.
import assert from 'node:assert/strict'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import { test } from 'node:test'
import type * as Longhaul from '../../../src/client/index.js'
import { openBrowser } from '../../servers/chromium.js'
import { bundled } from '../../unit/kit/bundle.js'
import { listen } from '../../kit/listen.js'

declare const longhaul: typeof Longhaul

const CORS = {
  'access-control-allow-origin': '*',
  'access-control-allow-headers': '*, authorization',
  'access-control-allow-methods': '*',
}

test('a request without secrets is redirected, and one with a body or with headers of the application is not', async (t) => {
  const script = await bundled(
    "import * as longhaul from 'longhaul/client'\nglobalThis.__name = (named) => named\nglobalThis.longhaul = longhaul",
    'iife',
  )
  const received: { readonly method: string | undefined; readonly headers: IncomingHttpHeaders }[] = []
  const other = await listen(
    createServer(({ method, headers }, response) => {
      received.push({ method, headers })
      response
        .writeHead(200, { ...CORS, 'content-type': 'application/json' })
        .end('{"status":"completed","result":{"message":"other"}}')
    }),
  )
  const home = await listen(
    createServer(({ url }, response) => {
      if (url === '/redirected') response.writeHead(307, { location: `http://127.0.0.1:${other.port}/` }).end()
      else
        response
          .writeHead(200, { 'content-type': 'text/html' })
          .end(`<!doctype html><title>client</title><script>${script.replaceAll('</script', '<\\/script')}</script>`)
    }),
  )
  const browser = await openBrowser()
  t.after(async () => {
    await browser.close()
    await Promise.all([home.close(), other.close()])
  })
  const page = await browser.newPage()
  await page.goto(`http://127.0.0.1:${home.port}/`)
  const outcomes = await page.evaluate(async () => {
    const codeOf = (work: Promise<unknown>) =>
      work.then(
        () => 'followed',
        (error: unknown) => longhaul.isClientError(error) && error.code,
      )
    const retry = { attempts: 1 }
    const secret = longhaul.createClient({ headers: { 'x-api-key': 's3cret' }, retry })
    const open = longhaul.createClient({ retry })
    return [
      await codeOf(secret.submit('/redirected', { a: 1 })),
      await codeOf(secret.resume({ statusUrl: '/redirected' }).status()),
      await codeOf(open.submit('/redirected', { a: 1 })),
      await codeOf(open.resume({ statusUrl: '/redirected' }).forget()),
      await codeOf(open.resume({ statusUrl: '/redirected' }).status()),
    ]
  })
  const refused = 'redirect_not_followed'
  assert.deepEqual(outcomes, [refused, refused, refused, refused, 'followed'])
  // `forget` reads the task before it deletes it.
  assert.deepEqual(
    received.map(({ method }) => method),
    ['GET', 'GET'],
  )
  assert.doesNotMatch(JSON.stringify(received), /s3cret/)
})
