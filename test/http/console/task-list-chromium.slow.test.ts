// The console of the reference server: the list of an owner's tasks in a real browser.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Locator, Page } from 'playwright-core'
import { agree, rowOf, state, submitWait, useConsole } from '../kit/console.js'

const kit = useConsole()

const says = (page: Page, words: string): Promise<void> => page.locator('#task-state', { hasText: words }).waitFor()

const isFocused = (element: Locator): Promise<boolean> => (
  element.evaluate((node) => node === node.ownerDocument.activeElement)
)

const namesOf = (page: Page): Promise<string[]> => page.locator('.task h3').evaluateAll((headings) => (
  headings.map((heading) => heading.firstChild?.textContent ?? '')
))

describe('the pages of the task list', () => {
  test('show all tasks of the owner, ten at a time, and none of others', async () => {
    const token = kit.newToken()
    const ids: string[] = []
    for (let at = 0; at < 13; at++) ids.unshift(await kit.submitAndWait(token, 'wait', { ms: 0 }))
    await kit.submitAndWait(kit.newToken(), 'wait', { ms: 0 })
    const page = await kit.open({ token })
    const shown = (): Promise<(string | null)[]> => page.locator('.task').evaluateAll((rows) => (
      rows.map((row) => row.getAttribute('data-id'))
    ))
    await says(page, 'Page 1: 10 tasks, newest first.')
    assert.deepEqual(await shown(), ids.slice(0, 10))

    const next = page.getByRole('button', { name: 'Next page' }).first()
    const previous = page.getByRole('button', { name: 'Previous page' }).first()
    assert.equal(await previous.getAttribute('aria-disabled'), 'true')
    await next.focus()
    await page.keyboard.press('Enter')
    await says(page, 'Page 2: 3 tasks, newest first.')
    assert.deepEqual(await shown(), ids.slice(10))
    assert.equal(await next.getAttribute('aria-disabled'), 'true')
    assert.equal(await isFocused(next), true, 'the focus stays on the button')
    await page.keyboard.press('Enter')

    await previous.click()
    await says(page, 'Page 1: 10 tasks')
    assert.deepEqual(await shown(), ids.slice(0, 10))
  })

  test('show the error of an unknown token, and no longer the tasks of the previous token', async () => {
    const token = kit.newToken()
    await kit.submitAndWait(token, 'wait', { ms: 0 })
    const page = await kit.open({ token })
    await page.locator('.task').waitFor()
    await page.getByLabel('Bearer token').fill('unknown')
    await page.getByRole('button', { name: 'Use token' }).click()
    await page.locator('#task-list-error', { hasText: 'unauthorized (401)' }).waitFor()
    assert.equal(await page.locator('.task').count(), 0)
  })
})

describe('the filters of the task list', () => {
  test('choose tasks by status, kind and time', async () => {
    const token = kit.newToken()
    await kit.submitAndWait(token, 'wait', { ms: 0 })
    await kit.submitAndWait(token, 'wait', { ms: 0, fail: true })
    await kit.submitAndWait(token, 'data-processing', { any: 'data' })
    await kit.submit(token, 'wait', { ms: 60_000 })
    const page = await kit.open({ token })
    await says(page, '4 tasks')
    const [status, kind, created] = ['Status', 'Kind', 'Created'].map((label) =>
      page.getByLabel(label, { exact: true }),
    )
    await status?.selectOption('failed')
    await says(page, 'Page 1: 1 task,')
    assert.equal(await page.locator('.badge').first().innerText(), 'failed')
    await status?.selectOption('not ended')
    await state(page.locator('.task'), 'running')
    await status?.selectOption('all')
    await kind?.selectOption('any-task')
    // The list before has one task, too.
    await page.locator('.task h3', { hasText: 'any-task' }).waitFor()
    await says(page, '1 task,')
    assert.deepEqual(await namesOf(page), ['any-task'])
    await status?.selectOption('cancelled')
    await says(page, 'No task matches the filters.')
    await status?.selectOption('all')
    await kind?.selectOption('all')
    await created?.selectOption('in the last 5 minutes')
    await says(page, '4 tasks')
    const sent = page.waitForRequest(/\/api\/status\?/)
    await page.getByRole('button', { name: 'Refresh' }).first().click()
    const from = new URL((await sent).url()).searchParams.get('from')
    assert.ok(Math.abs(Date.parse(from ?? '') + 300_000 - Date.now()) < 60_000, from ?? 'no time')
  })

  test('are reset for a new task that they would hide', async () => {
    const page = await kit.open()
    await page.getByLabel('Status', { exact: true }).selectOption('failed')
    await says(page, 'No task matches the filters.')
    await page.getByLabel('Seconds').fill('60')
    await page.getByRole('button', { name: 'Submit the task' }).click()
    await state(page.locator('.task'), 'running')
    assert.equal(await page.getByLabel('Status', { exact: true }).inputValue(), '')
  })
})

describe('a refresh of the task list', () => {
  test('shows what another client has changed, and keeps the focus', async () => {
    const token = kit.newToken()
    const page = await kit.open({ token })
    const first = await submitWait(page, 0)
    await state(first, 'completed')
    await first.getByText('The whole result').focus()
    const second = await kit.submitAndWait(token, 'wait', { ms: 0, fail: true })
    await page.evaluate("document.querySelector('#task-filters').requestSubmit()")
    await state(rowOf(page, second), 'failed')
    assert.equal(await isFocused(first.getByText('The whole result')), true)
  })
})

describe('a retry in the console', () => {
  test('runs a failed task again under its id, and the history shows each attempt', async () => {
    const token = kit.newToken()
    const id = await kit.submitAndWait(token, 'wait', { ms: 50, fail: true })
    const page = await kit.open({ token })
    const row = rowOf(page, id)
    await row.getByRole('button', { name: 'Retry wait' }).focus()
    await page.keyboard.press('Enter')
    const history = row.getByText('History: 2 attempts')
    await history.waitFor()
    await state(row, 'failed')
    await history.click()
    const attempts = await row.locator('.attempts li').allInnerTexts()
    assert.equal(attempts.length, 2)
    for (const attempt of attempts) assert.match(attempt, / s: told_to_fail The task failed, as it was told to\.$/)
    assert.equal(await page.locator('.task').count(), 1)
    assert.equal(await row.evaluate((node) => node.contains(node.ownerDocument.activeElement)), true)
  })

  test('runs a cancelled task again, and is watched to its end', async () => {
    const page = await kit.open()
    const row = await submitWait(page, 3)
    await state(row, 'running')
    await row.getByRole('button', { name: 'Cancel' }).click()
    await state(row, 'cancelled')
    await row.getByRole('button', { name: 'Retry' }).click()
    await state(row, 'completed')
    await row.getByText('Waited for 3000 ms.', { exact: true }).waitFor()
  })

  test('changes nothing if another tab has retried before, and the row shows the current task', async () => {
    const token = kit.newToken()
    const id = await kit.submit(token, 'wait', { ms: 60_000 })
    await kit.ask(token, 'DELETE', `/api/status/${id}`)
    const page = await kit.open({ token })
    const row = rowOf(page, id)
    await state(row, 'cancelled')
    assert.equal((await kit.ask(token, 'POST', `/api/status/${id}/retry`)).status, 202)
    await row.getByRole('button', { name: 'Retry' }).click()
    await state(row, 'running')
    await row.getByRole('button', { name: 'Cancel' }).click()
    await state(row, 'cancelled')
    assert.equal(await row.locator('.error').count(), 0)
  })
})

describe('the forget button of the console', () => {
  test('deletes the task on the server, and moves the focus to its neighbour or at last to the heading', async () => {
    const token = kit.newToken()
    const older = await kit.submitAndWait(token, 'wait', { ms: 0 })
    const newer = await kit.submitAndWait(token, 'wait', { ms: 0 })
    const page = await kit.open({ token })
    await rowOf(page, newer).getByRole('button', { name: 'Forget' }).focus()
    await page.keyboard.press('Space')
    await agree(page, 'Forget')
    await says(page, '1 task,')
    assert.equal((await kit.ask(token, 'GET', `/api/status/${newer}`)).status, 404)
    assert.equal(await isFocused(rowOf(page, older).locator('h3')), true)
    await page.locator('#announcer', { hasText: 'The task wait was forgotten.' }).waitFor({ state: 'attached' })

    await rowOf(page, older).getByRole('button', { name: 'Forget' }).focus()
    await page.keyboard.press('Enter')
    await agree(page, 'Forget')
    await says(page, 'No tasks yet.')
    assert.equal(await isFocused(page.locator('#tasks-title')), true)
  })

  test('shows in the row that another client has deleted the task, and offers no action', async () => {
    const token = kit.newToken()
    const id = await kit.submitAndWait(token, 'wait', { ms: 0, fail: true })
    const page = await kit.open({ token })
    const row = rowOf(page, id)
    await row.getByRole('button', { name: 'Retry' }).waitFor()
    await kit.forget(token, id)
    await row.getByRole('button', { name: 'Retry' }).click()
    await row.locator('.error', { hasText: 'task_not_found (404)' }).waitFor()
    assert.equal(await row.getByRole('button').count(), 0)
    await page.getByRole('button', { name: 'Refresh' }).first().click()
    await says(page, 'No tasks yet.')
  })
})
