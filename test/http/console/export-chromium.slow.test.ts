// longhaul/console in an application of a user: behind its own authentication, in a real browser.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { after, afterEach, before, describe, test } from 'node:test'
import type { AxeResults, RunOptions } from 'axe-core'
import express from 'express'
import type { Browser, Page } from 'playwright-core'
import { createTasks, defineTask, jsonSchema, type HttpRequest } from 'longhaul'
import { taskConsole } from 'longhaul/console'
import { memory } from 'longhaul/memory'
import { toNode } from 'longhaul/node'
import { retryTasks } from 'longhaul/operators'
import { openBrowser } from '../../servers/chromium.js'
import { listen, type Listening } from '../../kit/listen.js'
import { agree, CEILING_MS } from '../kit/console.js'

declare const axe: { run(options: RunOptions): Promise<AxeResults> }

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

interface User { readonly id: string, readonly role: string }
type Request = HttpRequest<{ readonly user?: User }>

const approving = defineTask({
  name: 'approving',
  input: jsonSchema<{ question: string, schema: 'form' | 'any' }>({ type: 'object' }),
  asks: {
    form: jsonSchema<{ send: boolean }>({
      type: 'object', required: ['send', 'title', 'days'], additionalProperties: false,
      properties: {
        send: { type: 'boolean', title: 'Send it' },
        title: { type: 'string', minLength: 2, maxLength: 40, description: 'Shown in the list.' },
        days: { type: 'integer', minimum: 1, maximum: 90 },
        tone: { enum: ['warm', 'formal'], default: 'formal' },
        note: { type: 'string' },
      },
    }),
    any: jsonSchema<readonly number[]>({ type: 'array', items: { type: 'number' } }),
  },
  run: async ({ question, schema }, { ask }) => ({ answer: await ask('q', { message: question, schema }) }),
})
const failing = defineTask({
  name: 'failing', run: (_: { n: number }, { log }) => {
    log('One line of the log.')
    throw new Error('The disk is full.', { cause: new Error('ENOSPC') })
  },
})

const retries = retryTasks()
const tasks = createTasks({ ...memory(), definitions: [approving, failing, retries], onError: () => undefined })
const problems: string[] = []
let browser: Browser
let site: Listening

before(async () => {
  const app = express()
  app.use((req, res, next) => {
    const [id = '', role = ''] = /user=(\w+)-(\w+)/.exec(req.headers.cookie ?? '')?.slice(1) ?? []
    if (id === '') res.status(401).send('Sign in first.')
    else next(Object.assign(req, { user: { id, role } }) && undefined)
  })
  app.use('/staff/console', toNode(taskConsole(tasks, {
    owner: ({ context }: Request) => context.user?.id,
    operator: ({ context }) => context.user?.role === 'admin', retries,
  })))
  site = await listen(createServer(app))
  browser = await openBrowser()
})
afterEach(async () => {
  await Promise.all(browser.contexts().map((context) => context.close()))
  assert.deepEqual(problems.splice(0), [], 'what the browser logged')
})
after(async () => {
  await browser.close()
  await site.close()
  await tasks.close({ drainMs: 0 })
})

/** Opens the console as a user with a cookie. Each line that the browser logs is a problem, those of a 403 too. */
async function open(user: string, options: object = {}): Promise<Page> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, reducedMotion: 'reduce', ...options })
  await context.addCookies([{ name: 'user', value: user, url: site.url }])
  const page = await context.newPage()
  page.setDefaultTimeout(CEILING_MS)
  page.on('pageerror', (error) => problems.push(error.message))
  page.on('console', (message) => { if (['error', 'warning'].includes(message.type())) problems.push(message.text()) })
  await page.goto(`${site.url}/staff/console`)
  return page
}

async function checkPage(page: Page): Promise<void> {
  await page.evaluate(AXE)
  const { violations, passes } = await page.evaluate(() => axe.run({ resultTypes: ['violations'] }))
  assert.ok(passes.length > 5, 'it has looked')
  assert.deepEqual(violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ target }) => target.join(' ')).join(', ')}`), [])
  assert.equal(await page.evaluate('document.documentElement.scrollWidth - document.documentElement.clientWidth'), 0)
}

const row = (page: Page, id: string) => page.locator(`.task[data-id="${id}"]`)

describe('a task that asks', () => {
  test('shows its question as a form of the schema, which sends the answer', async () => {
    const { taskId } = await tasks.ownedBy('ann').submit(approving, { question: 'Send <b>this</b>?', schema: 'form' })
    const page = await open('ann-user')
    const form = row(page, taskId).getByRole('form', { name: /^Question q of approving/ })
    await form.getByText('Send <b>this</b>?').waitFor()
    await page.locator('.badge', { hasText: 'needs an answer' }).waitFor()
    await form.getByLabel('Send it').selectOption('no')
    await form.getByLabel('title').fill('Spring')
    await form.getByLabel('days').fill('91')
    assert.equal(await form.getByLabel('days').evaluate((input) => (input as unknown as { validity: { rangeOverflow: boolean } }).validity.rangeOverflow), true)
    await form.getByLabel('days').fill('7')
    assert.equal(await form.getByLabel('tone (optional)').evaluate((each) => (each as unknown as { selectedOptions: { text: string }[] }).selectedOptions[0]?.text), 'formal')
    await form.getByRole('button', { name: 'Send the answer' }).focus()
    await page.keyboard.press('Enter')
    await row(page, taskId).locator('.badge', { hasText: 'completed' }).waitFor()
    const task = await tasks.get(taskId)
    assert.deepEqual(task?.status === 'completed' && task.result, { answer: { send: false, title: 'Spring', days: 7, tone: 'formal' } })
    assert.equal(await page.evaluate("document.activeElement.matches('.task h3')"), true)
  })

  test('has a field for JSON if no form can show the schema, and keeps what was entered', async () => {
    const { taskId } = await tasks.ownedBy('bob').submit(approving, { question: 'Which?', schema: 'any' })
    const page = await open('bob-user')
    const field = row(page, taskId).getByLabel('Answer as JSON')
    await field.fill('[1, 2')
    await row(page, taskId).getByRole('button', { name: 'Send the answer' }).click()
    await row(page, taskId).locator('.error', { hasText: 'invalid_json This is not JSON' }).waitFor()
    await page.getByRole('button', { name: 'Refresh' }).click()
    assert.equal(await field.inputValue(), '[1, 2')
    await field.fill('[1, 2]')
    await row(page, taskId).getByRole('button', { name: 'Send the answer' }).click()
    await row(page, taskId).locator('.badge', { hasText: 'completed' }).waitFor()
  })

  test('is answered by an operator, who sees the details', async () => {
    const { taskId } = await tasks.ownedBy('cleo').submit(approving, { question: 'And this?', schema: 'any' })
    const page = await open('root-admin')
    await page.getByRole('button', { name: `Details of approving ${taskId.slice(0, 6)}` }).click()
    await page.getByLabel('Answer as JSON').fill('[3]')
    await page.getByRole('button', { name: 'Send the answer' }).click()
    await page.locator('#operator-tasks tr', { hasText: taskId.slice(0, 6) }).locator('.badge', { hasText: /completed|running|waiting/ }).waitFor()
    assert.equal(await page.getByLabel('Answer as JSON').count(), 0)
  })
})

describe('the console of an application', () => {
  test('shows to operators the real error, the input and the log of a failed task', async () => {
    const { taskId } = await tasks.ownedBy('dan').submit(failing, { n: 7 })
    const page = await open('root-admin')
    await page.getByLabel('Owner', { exact: true }).fill('dan')
    await page.keyboard.press('Enter')
    const short = taskId.slice(0, 6)
    await page.locator('#operator-page', { hasText: 'Page 1: 1 task.' }).waitFor()
    await page.getByRole('button', { name: `Details of failing ${short}` }).click()
    const details = page.locator('#operator-tasks pre')
    assert.match(await details.first().innerText(), /The disk is full\.[^]*Caused by [^]*ENOSPC/)
    assert.match(await page.locator('#operator-tasks').innerText(), /"n": 7[^]*One line of the log\./)
  })

  test('shows the tasks of a tenant to operators, and retries only these', async () => {
    const { taskId: own } = await tasks.ownedBy('dan', { tenant: 'acme' }).submit(failing, { n: 1 })
    const { taskId: other } = await tasks.ownedBy('dan', { tenant: 'bolt' }).submit(failing, { n: 1 })
    const page = await open('root-admin')
    await page.getByLabel('Tenant', { exact: true }).fill('acme')
    await page.keyboard.press('Enter')
    await page.locator('#operator-page', { hasText: 'Page 1: 1 task.' }).waitFor()
    const row = page.locator('#operator-tasks tr', { hasText: own.slice(0, 6) })
    assert.match(await row.innerText(), /dan in acme/)
    await row.getByRole('button', { name: 'Retry all failed failing of the tenant acme' }).click()
    await page.getByRole('dialog').getByText('Retry 1 failed task failing of the tenant acme?').waitFor()
    await checkPage(page)
    await page.getByRole('dialog').getByRole('button', { name: 'Retry all' }).click()
    await page.getByText('1 of 1 tasks were retried.').waitFor()
    assert.equal((await tasks.get(other))?.attempt, 1)
    await page.getByLabel('Owner', { exact: true }).fill('eve')
    await page.keyboard.press('Enter')
    await page.getByText('No task matches the filters.').waitFor()
  })

  test('asks before it deletes a task, and does nothing if the user does not agree', async () => {
    const { taskId } = await tasks.ownedBy('eve').submit(failing, { n: 1 })
    const page = await open('root-admin')
    const forget = page.getByRole('button', { name: `Forget failing ${taskId.slice(0, 6)}` })
    await page.getByLabel('Owner', { exact: true }).fill('eve')
    await page.keyboard.press('Enter')
    // The list of all tasks has this button, too.
    await page.locator('#operator-page', { hasText: 'Page 1: 1 task.' }).waitFor()
    await forget.click()
    await page.getByRole('dialog').getByText(`Forget the task failing ${taskId.slice(0, 6)} of eve?`).waitFor()
    await checkPage(page)
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    assert.equal(await forget.evaluate((button) => button === button.ownerDocument.activeElement), true)
    assert.equal((await tasks.get(taskId))?.status, 'failed')
    await forget.click()
    await agree(page, 'Forget')
    await page.getByText('No task matches the filters.').last().waitFor()
    assert.equal(await tasks.get(taskId), undefined)
  })

  test('requests nothing that is forbidden for a user who is no operator, and hides the panel of operators', async () => {
    const page = await open('fay-user')
    const forbidden: string[] = []
    page.on('response', (response) => { if (response.status() >= 400) forbidden.push(response.url()) })
    await page.reload()
    await page.getByText('No tasks yet.').waitFor()
    await page.locator('#operator').waitFor({ state: 'hidden' })
    assert.equal(await page.getByRole('link', { name: 'All tasks' }).isVisible(), false)
    assert.deepEqual(forbidden, [])
  })

  test('removes an error once a refresh succeeds', async () => {
    const page = await open('gus-user')
    await page.getByText('No tasks yet.').waitFor()
    await page.route('**/api/tasks?*', (route) => route.fulfill({ status: 400, contentType: 'application/json', body: '{"error": "No.", "code": "made_up"}' }))
    await page.getByRole('button', { name: 'Refresh' }).click()
    await page.locator('#task-list-error', { hasText: 'made_up' }).waitFor()
    await page.unroute('**/api/tasks?*')
    await page.getByRole('button', { name: 'Refresh' }).click()
    await page.locator('#task-list-error .error').waitFor({ state: 'detached' })
    assert.match(problems.splice(0).join(), /^Failed to load resource.* 400 /)
  })

  test('folds its panels in a narrow window, by keyboard too, and has no fault for axe-core', async () => {
    await tasks.ownedBy('hal').submit(approving, { question: 'May I?', schema: 'form' })
    for (const colorScheme of ['light', 'dark'] as const) {
      const page = await open('hal-admin', { viewport: { width: 360, height: 740 }, colorScheme })
      await page.getByRole('button', { name: 'Send the answer' }).waitFor()
      const fold = page.getByRole('button', { name: 'All tasks' })
      assert.equal(await fold.getAttribute('aria-expanded'), 'false')
      assert.equal(await page.locator('#operator-view').isVisible(), false)
      await checkPage(page)
      await fold.focus()
      await page.keyboard.press('Enter')
      await page.locator('#operator-counts dd').first().waitFor()
      assert.equal(await fold.getAttribute('aria-expanded'), 'true')
      await checkPage(page)
      await page.setViewportSize({ width: 1280, height: 900 })
      assert.equal(await fold.isVisible(), false)
      await checkPage(page)
    }
  })
})
