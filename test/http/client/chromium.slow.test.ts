// The client in a page of a real browser, on the reference server.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import type * as Longhaul from '../../../src/client/index.js'
import { LARGE_FILE_BYTES, largeFile } from '../../../examples/reference-server/large-file.js'
import { openBrowser } from '../../servers/chromium.js'
import { bundled } from '../../unit/kit/bundle.js'
import { useReference } from '../kit/reference.js'

declare const longhaul: typeof Longhaul
declare const client: Longhaul.Client

const reference = useReference()
let browser: Browser
let page: Page
const problems: string[] = []

before(async () => {
  const script = await bundled(`import * as longhaul from 'longhaul/client'
    // The compiler of these tests names the functions that it hands to the page.
    globalThis.__name = (named) => named
    globalThis.longhaul = longhaul
    // Relative to the page, which is on the server's own origin.
    globalThis.client = longhaul.createClient({ headers: { authorization: 'Bearer writer-1' } })`, 'iife')
  browser = await openBrowser()
  page = await browser.newPage()
  page.on('pageerror', (error) => problems.push(error.message))
  await page.route('**/client-test.html', (route) =>
    route.fulfill({
      contentType: 'text/html',
      body: `<!doctype html><title>client</title><script>${script.replaceAll('</script', '<\\/script')}</script>`,
    }),
  )
  await page.goto(`${reference.url}/client-test.html`)
})
after(async () => {
  await browser.close()
})

describe('the client in a browser', () => {
  test('follows a task by events, resumes it and cancels it', async () => {
    const seen = await page.evaluate(async () => {
      const done: number[] = []
      const task = await client.submit<{ ms: number }>('/api/long-running-task', { task: 'wait', data: { ms: 1500 } })
      const result = await task.result({ onProgress: ({ progress }) => { done.push(progress?.done ?? 0) } })
      const again = await client.resume<{ ms: number }>(JSON.stringify(task)).result()
      const long = await client.submit('/api/long-running-task', { task: 'wait', data: { ms: 60_000 } })
      const cancelled = await long.cancel()
      const failure = await client
        .run('/api/long-running-task', { task: 'wait', data: { ms: 1, fail: true } })
        .catch((error: unknown) => error)
      return {
        done,
        ms: [result.ms, again.ms],
        status: cancelled.status,
        failed: longhaul.isTaskFailed(failure) && failure.code,
      }
    })
    assert.ok(seen.done.length >= 3, String(seen.done))
    assert.deepEqual([seen.ms, seen.status, seen.failed], [[1500, 1500], 'cancelled', 'told_to_fail'])
  })

  test('polls, and reports a rejected request', async () => {
    const seen = await page.evaluate(async () => {
      const polling = longhaul.createClient({
        headers: { authorization: 'Bearer writer-1' },
        events: false,
        poll: { baseMs: 1 },
      })
      const statuses: string[] = []
      await polling.run(
        '/api/long-running-task',
        { task: 'wait', data: { ms: 2500 } },
        {
          onProgress: ({ status }) => {
            statuses.push(status)
          },
        },
      )
      const refused = await polling
        .submit('/api/long-running-task', { task: 'wait', data: { ms: -1 } })
        .catch((error: unknown) => error)
      return { statuses, code: longhaul.isClientError(refused) && refused.code }
    })
    assert.ok(seen.statuses.length >= 3, String(seen.statuses))
    assert.deepEqual([seen.statuses.at(-1), seen.code], ['completed', 'invalid_input'])
  })

  test('sends records and reads records', async () => {
    const seen = await page.evaluate(async () => {
      let count = 0
      for await (const user of client.records<{ id: number }>('/bulk-data')) if (user.id > 0) count++
      const users = function* () {
        for (let at = 0; at < 2000; at++) yield { name: `Page ${at} ü`, email: `page${at}@example.com` }
      }
      return {
        count,
        report: await client.upload('/upload-ndjson', users),
        background: await client.upload('/upload-ndjson', users, { background: true }),
      }
    })
    assert.ok(seen.count >= 1000, String(seen.count))
    assert.equal(seen.report.summary?.total, 2000)
    assert.equal(seen.background.summary?.total, 2000)
  })

  test('pauses and resumes a download, which has the same bytes', async () => {
    const seen = await page.evaluate(async () => {
      const parts: Uint8Array[] = []
      const first = client.download('/api/files/large-file')
      for await (const bytes of first) {
        parts.push(bytes)
        if (first.received > 8_000_000) break
      }
      let heard = 0
      const from = first.position
      const onProgress = ({ received, total }: { readonly received: number; readonly total: number | undefined }) => {
        heard = received / (total ?? 1)
      }
      for await (const bytes of client.download('/api/files/large-file', { from, onProgress })) parts.push(bytes)
      const digest = await crypto.subtle.digest('SHA-256', await new Blob(parts).arrayBuffer())
      return {
        from,
        heard,
        hex: Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0')).join(''),
      }
    })
    const hash = createHash('sha256')
    for (const bytes of largeFile()) hash.update(bytes)
    assert.ok(seen.from.received > 8_000_000 && seen.from.received < LARGE_FILE_BYTES)
    assert.equal(seen.heard, 1)
    assert.equal(seen.hex, hash.digest('hex'))
  })

  test('rejects with the reason of an abort', async () => {
    const message = await page.evaluate(async () => {
      const controller = new AbortController()
      const task = await client.submit('/api/long-running-task', { task: 'wait', data: { ms: 60_000 } })
      const ended = task
        .result({
          signal: controller.signal,
          onProgress: () => {
            controller.abort(new Error('enough'))
          },
        })
        .catch((error: unknown) => (error as Error).message)
      const said = await ended
      await task.cancel()
      return said
    })
    assert.equal(message, 'enough')
  })

  test('causes no error of the page', () => {
    assert.deepEqual(problems, [])
  })
})
