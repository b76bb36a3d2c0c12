// The console of the reference server: uploads, bulk requests, users and versions, as somebody with
// a browser meets them.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Locator, Page } from 'playwright-core'
import { useConsole } from '../kit/console.js'

const kit = useConsole()

const LINES = '{"id": 2, "name": "Changed here"}\n{bad\n[1]\n{"email": "nope"}\n{"name": "none"}\n'
const FAILED = [['2', 'line_malformed'], ['3', 'line_not_object'], ['4', 'record_invalid'], ['5', 'invalid_input']]

async function failedLines(page: Page): Promise<string[][]> {
  await page.locator('#upload-lines tbody tr').first().waitFor()
  return page
    .locator('#upload-lines tbody tr')
    .evaluateAll((rows) =>
      rows.map((row) => [row.querySelector('td')?.textContent ?? '', row.querySelector('code')?.textContent ?? '']),
    )
}

describe('the NDJSON upload of the console', () => {
  test('sends pasted lines, shows failed ones in a table, and updates the list of users', async () => {
    const page = await kit.open()
    await page.getByLabel('Lines').fill(LINES)
    await page.getByRole('button', { name: 'Upload the lines' }).click()
    assert.deepEqual(await failedLines(page), FAILED)
    assert.equal(await page.locator('#upload-report').innerText(), 'Read 5 records: 1 succeeded, 4 failed.')
    const text = await page.locator('#upload-lines').innerText()
    assert.match(text, /at character 2, a property name/)
    assert.match(text, /\/email must be an e-mail address/)
    assert.match(text, /\{"name":"none"\}/)
    await page.locator('#users-table', { hasText: 'Changed here' }).waitFor()
  })

  test('takes a file that is picked or dropped', async () => {
    const page = await kit.open()
    await page
      .getByLabel('NDJSON file')
      .setInputFiles({ name: 'users.ndjson', mimeType: 'application/x-ndjson', buffer: Buffer.from(LINES) })
    await page.getByRole('button', { name: 'Upload the file' }).click()
    assert.deepEqual(await failedLines(page), FAILED)

    const dropped = await page.evaluateHandle(
      '(() => { const all = new DataTransfer(); all.items.add(new File([\'{"id": 3, "name": "Dropped"}\\n7\\n\'], "dropped.ndjson")); return all })()',
    )
    await page.dispatchEvent('#drop', 'dragover', { dataTransfer: dropped })
    assert.match(await page.locator('#drop').getAttribute('class') ?? '', /over/)
    await page.dispatchEvent('#drop', 'drop', { dataTransfer: dropped })
    await page.getByRole('button', { name: 'Upload the file' }).click()
    await page.getByText('Read 2 records: 1 succeeded, 1 failed.').waitFor()
    assert.deepEqual(await failedLines(page), [['2', 'line_not_object']])
    assert.doesNotMatch(await page.locator('#drop').getAttribute('class') ?? '', /over/)
    await page.locator('#users-table', { hasText: 'Dropped' }).waitFor()
    // A file that misses the zone does not take the page away.
    const kept = await page.evaluate(
      "(() => { const event = new DragEvent('drop', { bubbles: true, cancelable: true }); document.body.dispatchEvent(event); return event.defaultPrevented })()",
    )
    assert.equal(kept, true)
  })

  test('makes a task in the background, in which the server reads the lines', async () => {
    const page = await kit.open()
    await page.getByLabel('In the background').check()
    await page.getByLabel('Lines').fill(LINES)
    const [request] = await Promise.all([
      page.waitForRequest((each) => each.url().endsWith('/upload-ndjson')),
      page.getByRole('button', { name: 'Upload the lines' }).click(),
    ])
    assert.equal(request.headers()['prefer'], 'respond-async')
    assert.equal((await request.response())?.status(), 202)
    assert.deepEqual(await failedLines(page), FAILED)
  })

  test('is cancelled, and the focus is kept', async () => {
    const page = await kit.open()
    // Never answered.
    await page.route('**/upload-ndjson', () => undefined)
    await page.getByLabel('Lines').fill(LINES)
    await page.getByRole('button', { name: 'Upload the lines' }).click()
    await page.getByRole('button', { name: 'Cancel the upload' }).click()
    await page.getByText('The upload was cancelled').waitFor()
    assert.equal(await page.getByRole('button', { name: 'Cancel the upload' }).isVisible(), false)
    assert.equal(await page.evaluate('document.activeElement.textContent'), 'Upload the lines')
  })

  test('shows the code of a rejection', async () => {
    const page = await kit.open({ token: 'demo-reader' })
    await page.getByRole('button', { name: 'Example with mistakes' }).first().click()
    await page.getByRole('button', { name: 'Upload the lines' }).click()
    const error = page.locator('#upload-error .error')
    await error.waitFor()
    assert.equal(await error.innerText(), 'forbidden (403) This needs a token with the role writer.')
  })
})

const marks = (page: Page): Promise<string[]> =>
  page.locator('.mark').evaluateAll((all) => all.map((mark) => mark.textContent ?? ''))

describe('the bulk create of the console', () => {
  test('marks each item, and does not send items again that were created', async () => {
    const page = await kit.open()
    const bodies: unknown[] = []
    page.on('request', (request) => {
      if (request.url().endsWith('/api/users/bulk')) bodies.push(request.postDataJSON())
    })
    await page.locator('#bulk-example').click()
    await page.getByRole('button', { name: 'Create them' }).click()
    await page.locator('#bulk-report', { hasText: '207: 1 created, 3 refused.' }).waitFor()
    const [made = '', ...refused] = await marks(page)
    assert.match(made, /^✓ 201 created with the id \d+$/)
    assert.deepEqual(
      refused.map((mark) => mark.slice(0, mark.indexOf(' ', 7))),
      ['✗ 400 invalid_input', '✗ 409 duplicate_item', '✗ 409 conflict'],
    )

    // The field is marked, says why, and has the focus.
    const email = page.getByRole('group', { name: 'User 2' }).getByLabel('email')
    assert.equal(await email.getAttribute('aria-invalid'), 'true')
    assert.equal(
      await page.locator(`#${(await email.getAttribute('aria-describedby')) ?? ''}`).innerText(),
      '/email is required',
    )
    assert.equal(await email.evaluate((input) => input === input.ownerDocument.activeElement), true)

    await email.fill('somebody@else.example')
    await page.getByRole('button', { name: 'Create them' }).click()
    await page.locator('#bulk-report', { hasText: '207: 1 created, 2 refused.' }).waitFor()
    await page.getByRole('button', { name: 'Create them' }).click()
    await page.locator('#bulk-report', { hasText: '422: 0 created, 2 refused.' }).waitFor()
    assert.deepEqual(bodies.map((users) => (users as unknown[]).length), [4, 3, 2])

    for (const place of [4, 3]) await page.getByRole('button', { name: `Remove user ${place}` }).click()
    assert.equal(
      await page
        .getByRole('group', { name: 'User 2' })
        .getByRole('button')
        .evaluate((button) => button === button.ownerDocument.activeElement),
      true,
    )
    await page.getByRole('button', { name: 'Add a user' }).click()
    const third = page.getByRole('group', { name: 'User 3' })
    await third.getByLabel('email').fill('third@else.example')
    await third.getByLabel('role').selectOption('admin')
    await page.getByRole('button', { name: 'Create them' }).click()
    await page.locator('#bulk-report', { hasText: '201: 1 created, 0 refused.' }).waitFor()
    assert.deepEqual(bodies.at(-1), [{ email: 'third@else.example', role: 'admin' }])
    await page.locator('#requests-table', { hasText: '207 Multi-Status' }).waitFor()
  })

  test('shows the code if all of it is rejected', async () => {
    const page = await kit.open({ token: 'demo-reader' })
    await page.locator('#bulk-example').click()
    await page.getByRole('button', { name: 'Create them' }).click()
    await page.locator('#bulk-error', { hasText: 'forbidden (403)' }).waitFor()
    assert.deepEqual(await marks(page), ['', '', '', ''])
  })
})

describe('the users of the console', () => {
  test('are paged forwards and backwards by the links of the server', async () => {
    const page = await kit.open({ token: 'demo-reader' })
    const now = page.locator('#users-state')
    const button = (name: string): Locator => page.locator('#users .pager').getByRole('button', { name })
    const off = async (): Promise<string[]> => await page.locator('#users .pager [aria-disabled=true]').allInnerTexts()
    await now.filter({ hasText: /^1 to 10 of 1,2\d\d users\.$/ }).waitFor()
    assert.equal(await page.locator('#users-table tbody tr').count(), 10)
    assert.deepEqual(await off(), ['Previous'])
    await button('Next').click()
    await now.filter({ hasText: '11 to 20 of' }).waitFor()
    assert.deepEqual(await off(), [])
    await button('Last').click()
    await now.filter({ hasText: /^1,\d\d1 to 1,(\d\d\d) of 1,\1 users/ }).waitFor()
    assert.deepEqual(await off(), ['Next'])
    await button('Next').click({ force: true })
    await button('Previous').click()
    await now.filter({ hasText: /^1,\d\d1 to 1,\d\d0 of/ }).waitFor()
    await button('First').click()
    await now.filter({ hasText: '1 to 10 of' }).waitFor()
    await page.getByLabel('A page has').selectOption('100')
    await now.filter({ hasText: '1 to 100 of' }).waitFor()
    assert.equal(await page.locator('#users-table tbody tr').count(), 100)
  })
})

describe('the versions of the console', () => {
  test('are listed with the dates of the server', async () => {
    const page = await kit.open({ token: 'demo-reader', locale: 'en-GB', timezoneId: 'Pacific/Auckland' })
    const rows = page.locator('#versions-table tbody tr')
    await rows.nth(1).waitFor()
    assert.deepEqual(
      await rows
        .nth(0)
        .locator('time')
        .evaluateAll((times) => times.map((time) => time.getAttribute('datetime'))),
      ['2026-07-01T00:00:00.000Z', '2027-06-30T23:59:59.000Z'],
    )
    assert.match(
      await rows.nth(0).innerText(),
      /^\/v1\/users\s+deprecated\s+since 1 July 2026\s+30 June 2027\s+(\d+ days? left|is over)\s+then \/v2\/users\s+\{"id":1,"name":/,
    )
    assert.match(await rows.nth(1).innerText(), /^\/v2\/users\s+current\s+not planned\s+\{"id":1,.*"role":"admin"\}$/s)
  })
})
