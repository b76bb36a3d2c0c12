// npm run pictures: makes the pictures of pages in docs, and writes the digest of the sources that they show.
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { AddressInfo } from 'node:net'
import type { Browser, Page } from 'playwright-core'
import { parseTokens } from '../../examples/reference-server/auth.js'
import { DEMO_TOKENS } from '../../examples/reference-server/config.js'
import { startServer } from '../../examples/reference-server/server.js'
import { between } from '../http/kit/console.js'
import { openBrowser } from '../servers/chromium.js'
import { pictureOfProgress } from './progress.js'
import { DIGEST_FILE, digestOfPages } from './sources.js'

const docs = join(import.meta.dirname, '..', '..', 'docs')
const folder = mkdtempSync(join(tmpdir(), 'longhaul-pictures-'))

const receiver = createServer((_, res) => { res.writeHead(410).end() }).listen(0, '127.0.0.1')
await once(receiver, 'listening')
const callbackUrl = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/hook`
const server = await startServer({
  host: '127.0.0.1', port: 0, tokens: parseTokens(`${DEMO_TOKENS},ann=ann:writer,bob=bob:writer`),
  rateLimit: 100_000, callbackAllow: ['127.0.0.1'], drainMs: 100,
})
const browser = await openBrowser()
try {
  await pictureOfOperator(browser)
  await pictureOfTasks(browser)
  await pictureOfUpload(browser)
  await pictureOfProgress(browser, join(docs, 'progress-page.png'))
  writeFileSync(DIGEST_FILE, `${digestOfPages()}\n`)
} finally {
  await browser.close()
  await server.stop()
  receiver.close()
  rmSync(folder, { recursive: true })
}

/** Opens the console with a token. */
async function open(from: Browser, token: string, options: object = {}): Promise<Page> {
  const context = await from.newContext({ viewport: { width: 1280, height: 1000 }, ...options })
  const page = await context.newPage()
  await page.goto(server.url)
  await page.getByLabel('Bearer token').fill(token)
  await page.getByRole('button', { name: 'Use token' }).click()
  await page.locator('#session-state', { hasText: 'The server knows this token' }).waitFor()
  return page
}

/** Submits a task without the page. With `wait`, resolves once it is final. */
async function submit(token: string, data: object, more: object = {}, wait = false): Promise<void> {
  const headers = { authorization: `Bearer ${token}` }
  const { headers: accepted } = await fetch(`${server.url}/api/long-running-task`, {
    method: 'POST', body: JSON.stringify({ task: 'wait', data, ...more }),
    headers: { ...headers, 'content-type': 'application/json', 'prefer': 'respond-async' },
  })
  if (!wait) return
  const path = accepted.get('location') ?? ''
  await fetch(server.url + path, { headers: { ...headers, prefer: 'wait=20' } })
}

async function pictureOfOperator(from: Browser): Promise<void> {
  for (let at = 0; at < 5; at++) await submit('ann', { ms: 0 }, {}, true)
  await submit('bob', { ms: 0, fail: true }, {}, true)
  await submit('bob', { ms: 0 }, { callbackUrl }, true)
  for (let at = 0; at < 12; at++) await submit(at % 3 === 0 ? 'bob' : 'ann', { ms: 60_000 })
  const page = await open(from, 'demo-admin')
  await page.locator('#operator-callbacks td').first().waitFor()
  await page.getByLabel('Status of tasks').selectOption('failed')
  await page.locator('#operator-page', { hasText: 'Page 1: 1 task.' }).waitFor()
  await page.getByLabel('Status of tasks').selectOption('all')
  await page.locator('#operator-page', { hasText: 'Page 1: 10 tasks.' }).waitFor()
  await page.locator('#operator').screenshot({ path: join(docs, 'console-operator.png') })
  await page.context().close()
}

async function pictureOfTasks(from: Browser): Promise<void> {
  await submit('demo-writer', { ms: 0 }, {}, true)
  await submit('demo-writer', { ms: 0, fail: true }, {}, true)
  const page = await open(from, 'demo-writer')
  await page.locator('.task .badge', { hasText: 'failed' }).waitFor()
  await page.locator('#bulk-example').click()
  await page.getByRole('button', { name: 'Create them' }).click()
  await page.getByText(/^207: /).waitFor()
  await page.screenshot({ path: join(docs, 'console.png') })
  await page.context().close()
}

async function pictureOfUpload(from: Browser): Promise<void> {
  const file = join(folder, 'users.ndjson')
  writeFileSync(
    file,
    `${Array.from({ length: 15_000 }, (_, at) => JSON.stringify({ id: 1 + (at % 1000), name: 'x'.repeat(150) })).join('\n')}\n`,
  )
  const page = await open(from, 'demo-writer')
  let parts = 0
  await page.route('**/uploads/*', async (route, request) => {
    // The fourth part never arrives.
    if (request.method() !== 'PATCH' || ++parts < 4) await route.continue()
  })
  await page.getByLabel('NDJSON file').setInputFiles(file)
  await page.getByRole('button', { name: 'Upload the file' }).click()
  await between(page, '#sending-bar', 10, 100)
  await page.locator('#sending').getByRole('button', { name: 'Pause' }).click()
  await page.locator('#sending-state', { hasText: /^Paused at/ }).waitFor()
  await page.locator('#upload').screenshot({ path: join(docs, 'upload-paused.png') })
  await page.context().close()
}
