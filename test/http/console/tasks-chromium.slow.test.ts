// The console of the reference server: its tasks, as somebody with a browser meets them.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { between, hashOfFile, share, state, submitWait, useConsole } from '../kit/console.js'

const kit = useConsole()

describe('tasks in the console', () => {
  test('show their progress by events, and their result', async () => {
    const page = await kit.open()
    const asked: (string | undefined)[] = []
    page.on('request', (request) => {
      if (request.url().includes('/api/status/')) asked.push(request.headers()['accept'])
    })
    const row = await submitWait(page, 4)
    await between(page, '.task progress', 5, 95)
    await state(row, 'completed')
    assert.equal(await share(row.locator('progress')), 100)
    await row.getByText('Waited for 4000 ms.', { exact: true }).waitFor()
    assert.equal(asked.length, 1, 'one stream of events, and nothing else')
    assert.match(asked[0] ?? '', /^text\/event-stream/)
    await page.locator('#announcer', { hasText: 'The task wait is completed.' }).waitFor({ state: 'attached' })
  })

  test('can be cancelled, and keep the focus', async () => {
    const page = await kit.open()
    const row = await submitWait(page, 60)
    await state(row, 'running')
    await row.getByRole('button', { name: 'Cancel' }).focus()
    await page.keyboard.press('Enter')
    await state(row, 'cancelled')
    assert.equal(await row.getByRole('button', { name: 'Cancel' }).count(), 0)
    assert.equal(await row.locator('h3').evaluate((heading) => heading === heading.ownerDocument.activeElement), true)
  })

  test('show when a later start is due, and run at once after a cancel and a retry', async () => {
    const page = await kit.open()
    await page.getByLabel('Start', { exact: true }).selectOption('in an hour')
    const row = await submitWait(page, 1)
    await state(row, 'scheduled')
    assert.match(await row.locator('.times').innerText(), /^Created .+, starts /)
    await row.getByRole('button', { name: 'Cancel' }).click()
    await state(row, 'cancelled')
    await row.getByRole('button', { name: 'Retry' }).click()
    await state(row, 'completed')
  })

  test('show the code and the message of a failure and of a rejection', async () => {
    const page = await kit.open()
    await page.getByLabel('Fail in the end').check()
    const row = await submitWait(page, 0.1)
    await state(row, 'failed')
    assert.match(await row.locator('.error').innerText(), /^told_to_fail The task failed, as it was told to\.$/)

    await page.getByLabel('Task', { exact: true }).selectOption('export-users')
    await page.locator('#task-role').fill('nobody')
    await page.getByRole('button', { name: 'Submit the task' }).click()
    const refused = page.locator('#task-error .error')
    await refused.waitFor()
    assert.match(
      await refused.innerText(),
      /^unprocessable \(422\) There is no user with this role\.\s+\/data\/role must be one of admin, editor, viewer$/,
    )

    await page.locator('#task-role').fill('admin')
    await page.getByRole('button', { name: 'Submit the task' }).click()
    await page.locator('.task', { hasText: /Exported 1\d\d users\./ }).waitFor()
    assert.equal(await refused.count(), 0, 'what was refused is gone from the page')
  })

  test('show a story word by word, continue it after a reload, and end with it as the result', async () => {
    const page = await kit.open()
    await page.getByLabel('Task', { exact: true }).selectOption('tell')
    await page.getByRole('button', { name: 'Submit the task' }).click()
    await page.locator('.task .words', { hasText: /^A client asked/ }).waitFor()
    await page.reload()
    await page.locator('.task .words', { hasText: /^A client asked for a long story\./ }).waitFor()
    const row = page.locator('.task')
    await state(row, 'running')
    await page.locator('.task .words', { hasText: /^A client asked for .* and the words went on/ }).waitFor()
    await state(row, 'completed')
    await row.getByText(/^A client asked .* told the rest\.$/).waitFor()
    assert.equal(await row.locator('.words').isVisible(), false)
  })

  test('show a story once if the story is watched again', async () => {
    const page = await kit.open()
    await page.route('**/api/status/*', (route) =>
      route.fulfill({
        status: 400,
        contentType: 'application/json',
        body: '{"error": "Not like this.", "code": "made_up"}',
      }),
    )
    await page.getByLabel('Task', { exact: true }).selectOption('tell')
    await page.getByRole('button', { name: 'Submit the task' }).click()
    const row = page.locator('.task')
    await row.locator('.error', { hasText: 'made_up (400)' }).waitFor()
    await page.unroute('**/api/status/*')
    await row.getByRole('button', { name: 'Watch again' }).click()
    await row.locator('.words', { hasText: 'and told one word after the other' }).waitFor()
    assert.match(
      await row.locator('.words').innerText(),
      /^A client asked for a long story\. The server did not let it wait: it accepted the task, and told one word/,
    )
    await state(row, 'completed')
    assert.equal(await row.locator('.words').isVisible(), false)
  })

  test('include the checksum of the large file', async () => {
    const page = await kit.open()
    await page.getByLabel('Task', { exact: true }).selectOption('checksum')
    await page.getByRole('button', { name: 'Submit the task' }).click()
    const row = page.locator('.task')
    await state(row, 'completed')
    await row.getByText('The whole result').click()
    assert.match(await row.locator('pre').innerText(), new RegExp(`"sha256": "${hashOfFile()}"`))
  })
})
