// The console of the reference server: the operator's view of all owners' tasks in a real browser.
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { describe, test } from 'node:test'
import type { Page } from 'playwright-core'
import { agree, useConsole } from '../kit/console.js'
import { listen } from '../../kit/listen.js'

const kit = useConsole()

/** Returns the figures of the view, by status. */
const counts = (page: Page): Promise<Record<string, string>> =>
  page
    .locator('#operator-counts > div')
    .evaluateAll((cells) =>
      Object.fromEntries(
        cells.map((cell) => [cell.querySelector('dt')?.textContent ?? '', cell.querySelector('dd')?.textContent ?? '']),
      ),
    )

describe('the view of the operator', () => {
  test('shows the tasks of all owners as figures and pages, filtered by status and owner', async () => {
    const [ann, bob] = [kit.newToken(), kit.newToken()]
    for (let at = 0; at < 9; at++) await kit.submitAndWait(ann, 'wait', { ms: 0 })
    await kit.submitAndWait(bob, 'wait', { ms: 0, fail: true })
    await kit.submit(bob, 'wait', { ms: 60_000 })
    const page = await kit.open({ token: 'demo-admin' })
    await page.locator('#operator-tasks td').first().waitFor()
    const shown = await counts(page)
    assert.deepEqual([shown['completed'], shown['failed'], shown['cancelled']], ['9', '1', '0'])
    const pool = await page.locator('#operator-pools td').allInnerTexts()
    assert.deepEqual(pool, ['default', '1', '0', '–', 'Pause'])
    await page.locator('#operator-page', { hasText: 'Page 1: 10 tasks.' }).waitFor()
    await page.locator('#operator').getByRole('button', { name: 'Next page' }).click()
    await page.locator('#operator-page', { hasText: 'Page 2: 1 task.' }).waitFor()

    await page.getByLabel('Status of tasks').selectOption('failed')
    await page.locator('#operator-page', { hasText: 'Page 1: 1 task.' }).waitFor()
    const row = await page.locator('#operator-tasks td').allInnerTexts()
    assert.deepEqual([row[1], row[2], row[4]], [bob.replace('own', 'owner'), 'failed', 'told_to_fail'])
    await page.getByLabel('Status of tasks').selectOption('all')
    await page.getByLabel('Owner', { exact: true }).fill(ann.replace('own', 'owner'))
    await page.keyboard.press('Enter')
    await page.locator('#operator-page', { hasText: 'Page 1: 9 tasks.' }).waitFor()
    assert.equal(await page.locator('#operator-next').getAttribute('aria-disabled'), 'true')
  })

  test('pauses a pool after a question, by keyboard, and resumes it', async () => {
    const page = await kit.open({ token: 'demo-admin' })
    const pause = page.getByRole('button', { name: 'Pause the pool default' })
    const isPaused = async () => (
      (await (await kit.ask('demo-admin', 'GET', '/admin/pools')).json()) as { items: { isPaused: boolean }[] }
    ).items[0]?.isPaused
    await pause.focus()
    await page.keyboard.press('Enter')
    await page.getByRole('dialog').getByText(/^Pause the pool default in all processes\? No task begins/).waitFor()
    await page.keyboard.press('Enter')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    assert.equal(await isPaused(), false, 'the focused button of the question does nothing')
    await page.keyboard.press('Enter')
    await agree(page, 'Pause')
    await page.locator('#operator-pools .badge', { hasText: 'paused' }).waitFor()
    assert.equal(await isPaused(), true)
    await page.locator('#announcer', { hasText: 'The pool default was paused.' }).waitFor()
    await page.locator('button[data-pool]:focus', { hasText: 'Resume' }).waitFor()
    await page.keyboard.press('Enter')
    await page.locator('#operator-pools .badge').waitFor({ state: 'detached' })
    assert.equal(await isPaused(), false)
  })

  test('shows callbacks that failed, with their owner', async () => {
    // 410 means that the receiver wants no callbacks any more, so there is one attempt.
    const receiver = createServer((_, res) => { res.writeHead(410).end() })
    const { url: callbackUrl, close } = await listen(receiver)
    try {
      const token = kit.newToken()
      const id = await kit.submitAndWait(token, 'wait', { ms: 0 }, { callbackUrl })
      const page = await kit.open({ token: 'demo-admin' })
      const failed = page.locator('#operator-callbacks tr', { hasText: id.slice(0, 6) })
      await page.locator('#operator-tasks td').first().waitFor()
      while (await failed.count() === 0) {
        await Promise.all([
          page.waitForResponse(/\/admin\/tasks/),
          page.locator('#operator').getByRole('button', { name: 'Refresh' }).click(),
        ])
      }
      const words = (await failed.innerText()).replaceAll(/\s+/g, ' ')
      const owner = token.replace('own', 'owner')
      assert.equal(words, `wait ${id.slice(0, 6)} ${owner} failed, 1 attempt, the last answer was 410, gone`)
    } finally {
      await close()
    }
  })

  test('cancels, retries and deletes tasks of other owners, and retries all failed tasks of a kind', async () => {
    const [ann, bob] = [kit.newToken(), kit.newToken()]
    const [owner, other] = [ann.replace('own', 'owner'), bob.replace('own', 'owner')]
    const running = await kit.submit(ann, 'wait', { ms: 60_000 })
    const failed = [
      await kit.submitAndWait(ann, 'wait', { ms: 0, fail: true }),
      await kit.submitAndWait(bob, 'wait', { ms: 0, fail: true }),
    ]
    const page = await kit.open({ token: 'demo-admin' })
    await page.getByLabel('Owner', { exact: true }).fill(owner)
    await page.keyboard.press('Enter')
    const row = (id: string) => page.locator('#operator-tasks tr', { hasText: id.slice(0, 6) })
    const status = (token: string, id: string) => kit.ask(token, 'GET', `/api/status/${id}`)
    const bodyOf = async (token: string, id: string) =>
      (await (await status(token, id)).json()) as { status: string; attempt: number }
    await row(running).getByRole('button', { name: 'Cancel' }).click()
    await row(running).getByText('cancelled').waitFor()
    assert.equal((await bodyOf(ann, running)).status, 'cancelled')
    await row(running).getByRole('button', { name: 'Forget' }).click()
    await agree(page, 'Forget')
    await row(running).waitFor({ state: 'detached' })
    assert.equal((await status(ann, running)).status, 404)
    const [first = '', second = ''] = failed
    await row(first).getByRole('button', { name: `Retry wait ${first.slice(0, 6)}`, exact: true }).click()
    while ((await bodyOf(ann, first)).attempt !== 2 || (await bodyOf(ann, first)).status !== 'failed')
      await page.waitForTimeout(50)
    await page.getByLabel('Owner', { exact: true }).fill(other)
    await page.keyboard.press('Enter')
    await row(second).getByRole('button', { name: `Retry all failed wait of ${other}` }).click()
    await page.getByRole('dialog').getByText(`Retry 1 failed task wait of ${other}?`).waitFor()
    await agree(page, 'Retry all')
    await page.locator('#announcer', { hasText: '1 of 1 tasks were retried.' }).waitFor()
    while ((await bodyOf(bob, second)).attempt !== 2) await page.waitForTimeout(50)
    assert.equal((await bodyOf(ann, first)).attempt, 2)
    await page.getByLabel('Owner', { exact: true }).fill('')
    await page.keyboard.press('Enter')
    await row(first).getByRole('button', { name: 'Retry all failed wait', exact: true }).click()
    await page.getByRole('dialog').getByText(/^Retry \d+ failed tasks wait of all owners\?$/).waitFor()
    await agree(page, 'Retry all')
    while ((await bodyOf(ann, first)).attempt !== 3 || (await bodyOf(bob, second)).attempt !== 3)
      await page.waitForTimeout(50)
  })

  test('is only for operators, in the page and on the server', async () => {
    const page = await kit.open()
    await page.getByText('This view needs a token with the role admin.').waitFor()
    assert.equal(await page.locator('#operator-view').isVisible(), false)
    for (const path of ['/admin/overview', '/admin/pools', '/admin/tasks']) {
      for (const token of ['demo-reader', 'demo-writer'])
        assert.equal((await kit.ask(token, 'GET', path)).status, 403, path)
      assert.equal((await kit.ask('nobody', 'GET', path)).status, 401, path)
    }
    await page.getByRole('button', { name: 'demo-admin' }).click()
    await page.locator('#operator-counts dd').first().waitFor()
    await page.getByRole('button', { name: 'demo-reader' }).click()
    await page.getByText('This view needs a token with the role admin.').waitFor()
    assert.equal(await page.locator('#operator-view').isVisible(), false)
    assert.equal(await page.locator('#operator-tasks td').count(), 0)
  })
})
