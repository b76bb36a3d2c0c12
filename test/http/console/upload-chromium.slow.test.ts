// The console of the reference server: uploads of files that are paused, cut, and continued by another page or process.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { createConnection, createServer, type AddressInfo, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test, type TestContext } from 'node:test'
import type { AxeResults, RunOptions } from 'axe-core'
import type { Page, Request } from 'playwright-core'
import { openBrowser } from '../../servers/chromium.js'
import { startPostgres } from '../../servers/postgres-server.js'
import { startProcess, stopAfterwards } from '../kit/process.js'
import { CEILING_MS, share, useConsole } from '../kit/console.js'

declare const axe: { run(options: RunOptions): Promise<AxeResults> }

stopAfterwards()
const kit = useConsole()
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

const COUNT = 15_000
/** 2.9 MB: a dozen parts. The last line is no record. */
const folder = mkdtempSync(join(tmpdir(), 'longhaul-console-'))
const file = join(folder, 'users.ndjson')
writeFileSync(file, `${Array.from({ length: COUNT }, (_, at) => JSON.stringify({
  id: 1 + at % 1000, name: `Uploaded ${at} ${'x'.repeat(150)}`,
})).join('\n')}\nbad\n`)
after(() => { rmSync(folder, { recursive: true }) })
const REPORT = `Read ${COUNT + 1} records: ${COUNT} succeeded, 1 failed.`

/** Chooses the file, and uploads it. */
async function choose(page: Page): Promise<void> {
  await page.getByLabel('NDJSON file').setInputFiles(file)
  await page.getByRole('button', { name: 'Upload the file' }).click()
}
const button = (page: Page, name: string) => page.locator('#sending').getByRole('button', { name })
const state = (page: Page, text: string | RegExp): Promise<void> =>
  page.locator('#sending-state', { hasText: text }).waitFor()

/** The PATCH requests of a page, and a way to hold the one of a number. */
async function holding(page: Page, number: number) {
  const patches: Request[] = []
  let release = (): void => undefined
  const released = new Promise<void>((resolve) => { release = resolve })
  const held = new Promise<void>((resolve, reject) => {
    page.route('**/uploads/*', async (route, request) => {
      if (request.method() === 'PATCH' && patches.push(request) === number) {
        resolve()
        await released
      }
      // The page may have ended the request.
      await route.continue().catch(() => undefined)
    }).catch(reject)
  })
  return { patches, held, release }
}

const offsets = (patches: readonly Request[]): number[] =>
  patches.map((each) => Number(each.headers()['upload-offset']))

describe('the upload of a file in the console', () => {
  test('is paused and resumed from the keyboard, at the byte that the server has', async () => {
    const page = await kit.open()
    const { patches, held, release } = await holding(page, 4)
    await choose(page)
    await held
    await button(page, 'Pause').focus()
    await page.keyboard.press('Enter')
    await state(page, /^Paused at \d+\.\d MiB\.$/)
    const paused = await share(page.locator('#sending-bar'))
    assert.ok(paused > 0 && paused < 100, String(paused))
    release()
    await button(page, 'Resume').focus()
    await page.keyboard.press('Enter')
    await page.getByText(REPORT).waitFor()
    const sent = offsets(patches)
    assert.deepEqual([...sent].sort((a, b) => a - b), sent)
    assert.equal(await page.locator('#sending').isVisible(), false)
    assert.equal(await page.evaluate('document.activeElement.id || document.activeElement.outerHTML'), 'upload-file')
  })

  test('continues after a reload when the user chooses the same file again', async () => {
    const page = await kit.open()
    const { held } = await holding(page, 4)
    await page.getByLabel('In the background').check()
    await choose(page)
    await held
    await page.reload()
    await state(page, 'The upload of users.ndjson is not finished. Choose the same file to resume it.')
    assert.ok(await share(page.locator('#sending-bar')) > 0)
    await page.unroute('**/uploads/*')
    const rest = await holding(page, 0)
    await choose(page)
    await page.getByText(REPORT).waitFor()
    assert.ok((offsets(rest.patches)[0] ?? 0) > 0)
  })

  test('can be removed if it is unfinished, and its bytes are deleted', async () => {
    const page = await kit.open()
    const { held } = await holding(page, 2)
    await choose(page)
    await held
    await page.reload()
    const [request] = await Promise.all([
      page.waitForRequest((each) => each.method() === 'DELETE'),
      button(page, 'Forget it').click(),
    ])
    assert.equal((await request.response())?.status(), 204)
    assert.equal(await page.locator('#sending').isVisible(), false)
  })

  test('is cancelled, and shows the code of a rejection', async () => {
    const page = await kit.open()
    const { held } = await holding(page, 2)
    await choose(page)
    await held
    await button(page, 'Cancel the upload').click()
    await page.getByText('The upload was cancelled').waitFor()

    const reader = await kit.open({ token: 'demo-reader' })
    await choose(reader)
    await reader.locator('#upload-error', { hasText: 'forbidden (403)' }).waitFor()
    await button(reader, 'Cancel the upload').click()
  })

  test('passes axe-core while it runs, in light and dark mode and in a narrow window', async () => {
    const page = await kit.open({ reducedMotion: 'reduce' })
    const { held, release } = await holding(page, 3)
    await choose(page)
    await held
    await button(page, 'Pause').click()
    await page.evaluate(AXE)
    for (const [width, colorScheme] of [[1280, 'light'], [1280, 'dark'], [320, 'dark'], [320, 'light']] as const) {
      await page.setViewportSize({ width, height: 800 })
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
      const { violations, passes } = await page.evaluate(() => axe.run({ resultTypes: ['violations'] }))
      assert.deepEqual(violations.map(({ id }) => id), [], `${colorScheme}, ${width} pixels`)
      assert.ok(passes.length > 20, 'it has looked')
      assert.equal(
        await page.evaluate('document.documentElement.scrollWidth - document.documentElement.clientWidth'),
        0,
      )
    }
    release()
    await button(page, 'Cancel the upload').click()
  })
})

/** A proxy that breaks all connections after so many bytes, until it has another target. */
async function breakingProxy(t: TestContext) {
  const sockets = new Set<Socket>()
  let target = 0
  let left = Infinity
  let cut = (): void => undefined
  const server = createServer((near) => {
    if (target === 0) {
      near.destroy()
      return
    }
    const far = createConnection({ port: target, host: '127.0.0.1' })
    for (const socket of [near, far]) {
      sockets.add(socket)
      socket.on('error', () => undefined).on('close', () => { near.destroy(); far.destroy() })
    }
    far.pipe(near)
    near.on('data', (data: Buffer) => {
      left -= data.byteLength
      if (left >= 0) far.write(data)
      else cut()
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const close = (): void => { for (const socket of sockets) socket.destroy() }
  t.after(() => {
    server.close()
    close()
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    to(url: string) {
      target = Number(new URL(url).port)
      left = Infinity
    },
    /** Resolves when the connections were cut. */
    cutAfter: (bytes: number) => new Promise<void>((resolve) => {
      left = bytes
      cut = () => {
        target = 0
        close()
        resolve()
      }
    }),
  }
}

test('another process completes an upload whose server dies in the middle', async (t) => {
  const postgres = await startPostgres()
  t.after(() => postgres.stop())
  const env = { DATABASE: postgres.url, AUTH_TOKENS: 'plug=pia:writer', RATE_LIMIT: '1000000' }
  const first = startProcess(env)
  const proxy = await breakingProxy(t)
  proxy.to(await first.url())

  const browser = await openBrowser()
  t.after(() => browser.close())
  const page = await browser.newPage()
  page.setDefaultTimeout(CEILING_MS)
  await page.goto(proxy.url)
  await page.getByLabel('Bearer token').fill('plug')
  await page.getByRole('button', { name: 'Use token' }).click()
  await page.locator('#session-state', { hasText: 'The server knows this token' }).waitFor()
  const patches: Request[] = []
  page.on('request', (each) => { if (each.method() === 'PATCH') patches.push(each) })
  await page.getByLabel('In the background').check()

  const cut = proxy.cutAfter(1_500_000)
  await choose(page)
  await cut
  first.child.kill('SIGKILL')
  await first.exited
  await button(page, 'Try again').waitFor()
  await state(page, /^Interrupted at \d\.\d MiB\. The server keeps what it has\.$/)
  const failed = patches.length

  const second = startProcess(env)
  proxy.to(await second.url())
  await button(page, 'Try again').click()
  await page.getByText(REPORT).waitFor()
  const [resumedAt = 0] = offsets(patches.slice(failed))
  assert.ok(resumedAt >= 1_000_000, `resumed at ${resumedAt}`)
  await page.getByRole('cell', { name: 'line_malformed' }).waitFor()
  second.child.kill('SIGTERM')
  assert.equal((await second.exited).code, 0)
})
