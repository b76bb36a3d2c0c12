// The console of the reference server: files of tasks in a real browser.
import assert from 'node:assert/strict'
import { text } from 'node:stream/consumers'
import { describe, test } from 'node:test'
import type { Locator, Page } from 'playwright-core'
import { rowOf, share, useConsole } from '../kit/console.js'

const kit = useConsole()
const FILE = '**/files/users.ndjson'

/** Opens a page with a task that has written the file users.ndjson. Returns the row of the task. */
async function exported(): Promise<{ readonly page: Page, readonly row: Locator }> {
  const token = kit.newToken()
  const id = await kit.submitAndWait(token, 'export-users', {})
  const page = await kit.open({ token })
  const row = rowOf(page, id)
  await row.getByRole('button', { name: 'Download users.ndjson' }).waitFor()
  return { page, row }
}

describe('the files of a task in the console', () => {
  test('are downloaded by keyboard, with the bytes and the digest of the server', async () => {
    const { page, row } = await exported()
    await row.getByRole('button', { name: 'Download users.ndjson' }).focus()
    const [saved] = await Promise.all([page.waitForEvent('download'), page.keyboard.press('Enter')])
    assert.equal(saved.suggestedFilename(), 'users.ndjson')
    const lines = (await text(await saved.createReadStream())).trimEnd().split('\n')
    assert.equal(lines.length, 1200)
    assert.equal((JSON.parse(lines[0] ?? '') as { name: string }).name, 'Ada Allen')
    await row.getByText(/^✓ \d+\.\d KiB, the digest is right\./).waitFor()
    assert.equal(await row.locator('.files progress').isVisible(), false)

    const link = row.getByRole('link', { name: 'Save users.ndjson again' })
    const [again] = await Promise.all([page.waitForEvent('download'), link.click()])
    assert.equal(again.suggestedFilename(), 'users.ndjson')
    kit.forgiveBlobs()
  })

  test('show a progress bar, and can be downloaded again after a stop, with the focus kept', async () => {
    const { page, row } = await exported()
    let asked = (): void => undefined
    const isAsked = new Promise<void>((resolve) => { asked = resolve })
    await page.route(FILE, () => { asked() })
    await row.getByRole('button', { name: 'Download users.ndjson' }).click()
    await isAsked
    const bar = row.getByRole('progressbar', { name: 'Download of users.ndjson' })
    await bar.waitFor()
    assert.equal(await share(bar), 0)
    await row.getByRole('button', { name: 'Stop the download of users.ndjson' }).focus()
    await page.keyboard.press('Space')
    await row.getByText('Stopped.', { exact: true }).waitFor()
    const button = row.getByRole('button', { name: 'Download users.ndjson' })
    assert.equal(await button.evaluate((node) => node === node.ownerDocument.activeElement), true)
    await page.unroute(FILE)
    await Promise.all([page.waitForEvent('download'), page.keyboard.press('Enter')])
    kit.forgiveBlobs()
  })

  test('are rejected if their bytes were changed on the way', async () => {
    const { page, row } = await exported()
    await page.route(FILE, async (route) => {
      const response = await route.fetch()
      const body = (await response.body()).fill('x', 10, 20)
      await route.fulfill({ response, body })
    })
    await row.getByRole('button', { name: 'Download users.ndjson' }).click()
    await row.locator('.files .error', { hasText: 'digest_mismatch' }).waitFor()
    assert.equal(await row.getByRole('link').count(), 0)
  })

  test('are deleted with the task, and a later download shows this', async () => {
    const { page, row } = await exported()
    const token = await page.getByLabel('Bearer token').inputValue()
    const id = await row.getAttribute('data-id')
    await kit.forget(token, id ?? '')
    await row.getByRole('button', { name: 'Download users.ndjson' }).click()
    await row.locator('.files .error', { hasText: '(404)' }).waitFor()
  })
})
