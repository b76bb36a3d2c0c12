// The console of the reference server: its tasks and its large download, as somebody with a browser meets them.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, test } from 'node:test'
import type { Locator, Page, Request } from 'playwright-core'
import { LARGE_FILE_BYTES, largeFile } from '../../examples/reference-server/large-file.js'
import { useConsole } from './console-kit.js'

const kit = useConsole()

async function submitWait(page: Page, seconds: number): Promise<Locator> {
  const before = await page.locator('.task').count()
  await page.getByLabel('Seconds').fill(String(seconds))
  await page.getByRole('button', { name: 'Submit the task' }).click()
  await page.locator('.task').nth(before).waitFor()
  const id = await page.locator('.task').first().getAttribute('data-id')
  return page.locator(`.task[data-id="${id ?? ''}"]`)
}

const state = (row: Locator, words: string): Promise<void> => row.locator('.badge', { hasText: words }).waitFor()
const share = (bar: Locator): Promise<number> => bar.evaluate((element) => (element as unknown as { value: number }).value)

/** Resolves once an element's `value` is within bounds. */
async function between(page: Page, selector: string, low: number, high: number): Promise<void> {
  await page.waitForFunction(([where, from, to]) => {
    const { value } = (globalThis as unknown as { document: { querySelector(selector: string): { value: number } } }).document.querySelector(where as string)
    return value > Number(from) && value < Number(to)
  }, [selector, low, high])
}

describe('tasks', () => {
  test('a task shows its progress by events, and its result', async () => {
    const page = await kit.open()
    const asked: (string | undefined)[] = []
    page.on('request', (request) => { if (request.url().includes('/api/status/')) asked.push(request.headers()['accept']) })
    const row = await submitWait(page, 2)
    await between(page, '.task progress', 5, 95)
    await state(row, 'completed')
    assert.equal(await share(row.locator('progress')), 100)
    await row.getByText('Waited for 2000 ms.', { exact: true }).waitFor()
    assert.equal(asked.length, 1, 'one stream of events, and nothing else')
    assert.match(asked[0] ?? '', /^text\/event-stream/)
    await page.locator('#announcer', { hasText: 'The task wait is completed.' }).waitFor({ state: 'attached' })
  })

  test('a task is cancelled; the focus stays with it', async () => {
    const page = await kit.open()
    const row = await submitWait(page, 60)
    await state(row, 'runs')
    await row.getByRole('button', { name: 'Cancel' }).focus()
    await page.keyboard.press('Enter')
    await state(row, 'cancelled')
    assert.equal(await row.getByRole('button', { name: 'Cancel' }).count(), 0)
    assert.equal(await row.locator('h3').evaluate((heading) => heading === heading.ownerDocument.activeElement), true)
  })

  test('a failure and a refusal have their code and their words', async () => {
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
    assert.match(await refused.innerText(), /^unprocessable \(422\) There is no user with this role\.\s+\/data\/role must be one of admin, editor, viewer$/)

    await page.locator('#task-role').fill('admin')
    await page.getByRole('button', { name: 'Submit the task' }).click()
    await page.locator('.task', { hasText: /Exported 1\d\d users\./ }).waitFor()
    assert.equal(await refused.count(), 0, 'what was refused is gone from the page')
  })

  test('the checksum of the large file is a task, too', async () => {
    const page = await kit.open()
    await page.getByLabel('Task', { exact: true }).selectOption('checksum')
    await page.getByRole('button', { name: 'Submit the task' }).click()
    const row = page.locator('.task')
    await state(row, 'completed')
    await row.getByText('The whole result').click()
    assert.match(await row.locator('pre').innerText(), new RegExp(`"sha256": "${hashOfFile()}"`))
  })

  test('a callback is shown until it is delivered, or refused', async () => {
    const got: string[] = []
    const receiver = createServer((req, res) => {
      req.on('data', (chunk) => got.push(String(chunk))).on('end', () => { res.writeHead(204).end() })
    })
    receiver.listen(0, '127.0.0.1')
    await once(receiver, 'listening')
    try {
      const page = await kit.open()
      await page.getByLabel('Callback URL').fill(`http://127.0.0.1:${(receiver.address() as AddressInfo).port}/hook`)
      const row = await submitWait(page, 1)
      await row.getByText(/^Callback: waiting/).waitFor()
      await row.getByText(/^Callback: delivered, 1 attempt, the last answer was 204, at /).waitFor()
      assert.match(got.join(''), /"type":"task.completed"/)

      await page.getByLabel('Callback URL').fill('http://10.0.0.1/hook')
      await page.getByRole('button', { name: 'Submit the task' }).click()
      await page.locator('#task-error', { hasText: 'callback_url_forbidden' }).waitFor()
    } finally {
      receiver.close()
      receiver.closeAllConnections()
    }
  })

  test('a page that is loaded again takes its tasks up again; those of another token are not shown', async () => {
    const page = await kit.open()
    const row = await submitWait(page, 60)
    await state(row, 'runs')
    const first = await row.getAttribute('data-id')
    await page.reload()
    await state(page.locator('.task'), 'runs')
    assert.equal(await page.locator('.task').getAttribute('data-id'), first)
    await page.getByRole('button', { name: 'demo-admin' }).click()
    await page.getByText('No tasks yet.').waitFor()
    await page.getByRole('button', { name: 'demo-writer' }).click()
    await page.locator('.task').getByRole('button', { name: 'Cancel' }).click()
    await state(page.locator('.task'), 'cancelled')
    await page.getByRole('button', { name: 'Clear those that ended' }).click()
    await page.getByText('No tasks yet.').waitFor()
  })

  test('more tasks than a browser has connections leave room for the rest of the page', async () => {
    const page = await kit.open()
    for (let count = 0; count < 9; count++) await submitWait(page, 60)
    await page.getByRole('button', { name: 'Next' }).click()
    await page.locator('#users-state', { hasText: '11 to 20 of' }).waitFor()
    for (const at of [0, 4, 8]) await page.locator('.task').nth(at).getByRole('button', { name: 'Cancel' }).click()
    for (const at of [0, 4, 8]) await state(page.locator('.task').nth(at), 'cancelled')
    // Those that had no stream of their own are looked at all the same.
    for (const at of [1, 7]) await state(page.locator('.task').nth(at), 'runs')
    await page.evaluate("document.querySelectorAll('.task button').forEach((button) => button.click())")
    await page.locator('.badge.cancelled').nth(8).waitFor()
  })
})

describe('download', () => {
  test('paused, resumed where it was, and the bytes of the server', async () => {
    const page = await kit.open()
    const asked: Request[] = []
    page.on('request', (request) => { if (request.url().endsWith('/large-file')) asked.push(request) })
    await page.getByLabel('Speed').selectOption('2097152')
    await page.getByRole('button', { name: 'Start' }).click()
    await between(page, '#download-bar', 1, 100)
    await page.getByRole('button', { name: 'Pause' }).click()
    await page.getByText(/^Paused at \d+\.\d MiB\.$/).waitFor()
    const paused = await share(page.locator('#download-bar'))
    assert.ok(paused > 1 && paused < 100, String(paused))

    await page.getByLabel('Speed').selectOption('0')
    await page.getByRole('button', { name: 'Resume' }).click()
    await page.getByText('✓ The same bytes').waitFor()
    assert.equal(await share(page.locator('#download-bar')), 100)
    assert.deepEqual(await page.locator('#download-verdict .hash').allInnerTexts(), [hashOfFile(), hashOfFile()])

    const [first, second, ...more] = await Promise.all(asked.map(async (request) => ({ sent: request.headers(), status: (await request.response())?.status() })))
    assert.equal(more.length, 0)
    assert.equal(first?.sent['range'], 'bytes=0-')
    const from = Number(/^bytes=(\d+)-$/.exec(second?.sent['range'] ?? '')?.[1])
    assert.ok(Math.abs(from / LARGE_FILE_BYTES * 100 - paused) < 0.01, `${from} is where it was paused`)
    assert.match(second?.sent['if-range'] ?? '', /^"large-file-/)
    assert.equal(second?.status, 206)

    const [saved] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name: 'Save the file' }).click()])
    const hash = createHash('sha256')
    for await (const bytes of await saved.createReadStream()) hash.update(bytes as Buffer)
    assert.equal(hash.digest('hex'), hashOfFile())
    // The browser asks for what is in the page itself.
    kit.problems.splice(0, kit.problems.length, ...kit.problems.filter((problem) => !problem.startsWith('request to blob:')))

    await page.getByRole('button', { name: 'Start over' }).click()
    assert.equal(await share(page.locator('#download-bar')), 0)
    await page.getByRole('button', { name: 'Start', exact: true }).waitFor()
  })

  test('other bytes are told from those of the server', async () => {
    const page = await kit.open()
    await page.route('**/api/files/large-file', (route) => route.fulfill({ status: 206, headers: { 'etag': '"x"', 'content-range': 'bytes 0-4/5' }, body: 'other' }))
    await page.getByRole('button', { name: 'Start', exact: true }).click()
    await page.getByText('✗ Other bytes than the server has').waitFor()
    assert.equal(await page.locator('#download-verdict .hash').first().innerText(), createHash('sha256').update('other').digest('hex'))
  })

  test('a reader gets the file; only the checksum is refused', async () => {
    const page = await kit.open({ token: 'demo-reader' })
    await page.getByLabel('Speed').selectOption('0')
    await page.getByRole('button', { name: 'Start', exact: true }).click()
    await page.locator('#download-error', { hasText: 'forbidden (403)' }).waitFor()
    assert.equal(await page.locator('#download-verdict .hash').innerText(), hashOfFile())
  })
})

let known = ''
function hashOfFile(): string {
  if (known !== '') return known
  const hash = createHash('sha256')
  for (const bytes of largeFile()) hash.update(bytes)
  known = hash.digest('hex')
  return known
}
