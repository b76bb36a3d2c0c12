// The console of the reference server: how it follows tasks, as somebody with a browser meets it.
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { describe, test } from 'node:test'
import { state, submitWait, useConsole } from '../kit/console.js'
import { listen } from '../../kit/listen.js'

const kit = useConsole()

describe('following tasks in the console', () => {
  test('a callback is shown until it is delivered, or rejected', async () => {
    const got: string[] = []
    const receiver = createServer((req, res) => {
      req.on('data', (chunk) => got.push(String(chunk))).on('end', () => { res.writeHead(204).end() })
    })
    const { url, close } = await listen(receiver)
    try {
      const page = await kit.open()
      await page.getByLabel('Callback URL').fill(`${url}/hook`)
      const row = await submitWait(page, 3)
      await row.getByText(/^Callback: waiting/).waitFor()
      await row.getByText(/^Callback: delivered, 1 attempt, the last answer was 204, at /).waitFor()
      assert.match(got.join(''), /"type":"task.completed"/)

      await page.getByLabel('Callback URL').fill('http://10.0.0.1/hook')
      await page.getByRole('button', { name: 'Submit the task' }).click()
      await page.locator('#task-error', { hasText: 'callback_url_forbidden' }).waitFor()
    } finally {
      await close()
    }
  })

  test('a reloaded page shows its own tasks again, and no tasks of another token', async () => {
    const token = kit.newToken()
    const page = await kit.open({ token })
    const row = await submitWait(page, 60)
    await state(row, 'running')
    const first = await row.getAttribute('data-id')
    await page.reload()
    await state(page.locator('.task'), 'running')
    assert.equal(await page.locator('.task').getAttribute('data-id'), first)
    await page.getByRole('button', { name: 'demo-reader' }).click()
    await page.getByText('No tasks yet.').waitFor()
    await page.getByLabel('Bearer token').fill(token)
    await page.getByRole('button', { name: 'Use token' }).click()
    await page.locator('.task').getByRole('button', { name: 'Cancel' }).click()
    await state(page.locator('.task'), 'cancelled')
  })

  test('a task that could not be watched is watched again on request', async () => {
    const page = await kit.open()
    await page.route('**/api/status/*', (route) =>
      route.fulfill({
        status: 400,
        contentType: 'application/json',
        body: '{"error": "Not like this.", "code": "made_up"}',
      }),
    )
    const row = await submitWait(page, 3)
    await row.locator('.error', { hasText: 'made_up (400) Not like this.' }).waitFor()
    await page.unroute('**/api/status/*')
    await row.getByRole('button', { name: 'Watch again' }).click()
    await state(row, 'completed')
    assert.equal(await row.locator('.error').count(), 0)
  })

  test('leaves connections for the rest of the page, even with more tasks than a browser has connections', async () => {
    const page = await kit.open()
    for (let count = 0; count < 9; count++) await submitWait(page, 60)
    await page.getByRole('button', { name: 'Next', exact: true }).click()
    await page.locator('#users-state', { hasText: '11 to 20 of' }).waitFor()
    for (const at of [0, 4, 8]) await page.locator('.task').nth(at).getByRole('button', { name: 'Cancel' }).click()
    for (const at of [0, 4, 8]) await state(page.locator('.task').nth(at), 'cancelled')
    // Those that had no stream of their own are looked at all the same.
    for (const at of [1, 7]) await state(page.locator('.task').nth(at), 'running')
    await page.evaluate(
      "document.querySelectorAll('.task button:not([hidden])[aria-label^=Cancel]').forEach((button) => button.click())",
    )
    await page.locator('.badge.cancelled').nth(8).waitFor()
  })
})
