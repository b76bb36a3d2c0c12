// The console of the reference server in a real browser. Whatever a page complains of fails the test that opened it.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { after, afterEach, before } from 'node:test'
import type { Browser, BrowserContext, BrowserContextOptions, Locator, Page } from 'playwright-core'
import { parseTokens } from '../../../examples/reference-server/auth.js'
import { DEMO_TOKENS } from '../../../examples/reference-server/config.js'
import { largeFile } from '../../../examples/reference-server/large-file.js'
import { startServer, type RunningServer, type StartOptions } from '../../../examples/reference-server/server.js'
import { openBrowser } from '../../servers/chromium.js'
import { AnswerWatch } from './openapi-watch.js'

/** For what takes as long as a busy machine lets it. */
export const CEILING_MS = 40_000

export interface OpenOptions extends BrowserContextOptions {
  /** The token to use; `null` for none. Default: a token with the role writer that no other test has. */
  readonly token?: string | null
}

/** Number of tokens with the role writer, each of another owner. A list shows the tasks of its owner. */
const WRITERS = 30
const OWN_TOKENS = Array.from({ length: WRITERS }, (_, at) => `own-${at}=owner-${at}:writer`)

export class ConsoleKit {
  url = ''
  #writers = 0
  /** What the pages of the test that runs have complained of. */
  readonly problems: string[] = []
  browser: Browser | undefined
  #usual: Promise<BrowserContext> | undefined
  readonly #own: BrowserContext[] = []

  /** A page in a tab of its own, which is what the console keeps anything for. */
  async open({ token = this.newToken(), ...options }: OpenOptions = {}): Promise<Page> {
    const context = await this.#context(options)
    const page = await context.newPage()
    page.setDefaultTimeout(CEILING_MS)
    page.on('pageerror', (error) => this.problems.push(`error: ${error.message}`))
    page.on('console', (message) => {
      // A refusal is what some of the tests are about; the browser writes each of them down.
      if (
        ['error', 'warning'].includes(message.type()) &&
        !/^Failed to load resource: the server responded with a status of 4\d\d/.test(message.text())
      ) {
        this.problems.push(`${message.type()}: ${message.text()}`)
      }
    })
    page.on('request', (request) => {
      if (new URL(request.url()).origin !== this.url) this.problems.push(`request to ${request.url()}`)
    })
    await page.goto(this.url)
    if (token !== null) {
      await page.getByLabel('Bearer token').fill(token)
      await page.getByRole('button', { name: 'Use token' }).click()
      await page.locator('#session-state', { hasText: 'The server knows this token' }).waitFor()
    }
    return page
  }

  /** Drops the requests of the browser for files that a page holds in memory and saves. */
  forgiveBlobs(): void {
    const others = this.problems.filter((problem) => !problem.startsWith('request to blob:'))
    this.problems.splice(0, this.problems.length, ...others)
  }

  /** Returns a token with the role writer, whose owner has no tasks yet. */
  newToken(): string {
    assert.ok(this.#writers < WRITERS, 'there are enough tokens')
    return `own-${this.#writers++}`
  }

  /** Sends a request without the page. */
  async ask(
    token: string,
    method: string,
    path: string,
    body?: object,
    more: Record<string, string> = {},
  ): Promise<Response> {
    return fetch(this.url + path, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        ...more,
        ...(body && { 'content-type': 'application/json', 'prefer': 'respond-async' }),
      },
      ...(body && { body: JSON.stringify(body) }),
    })
  }

  /** Deletes a task that has ended, without the page. */
  async forget(token: string, id: string): Promise<void> {
    const path = `/api/status/${id}`
    const etag = (await this.ask(token, 'GET', path)).headers.get('etag') ?? ''
    assert.equal((await this.ask(token, 'DELETE', path, undefined, { 'if-match': etag })).status, 204)
  }

  /** Submits a task without the page. Resolves with its id. */
  async submit(token: string, task: string, data: object, more: object = {}): Promise<string> {
    const answer = await this.ask(token, 'POST', '/api/long-running-task', { task, data, ...more })
    assert.equal(answer.status, 202)
    return ((await answer.json()) as { taskId: string }).taskId
  }

  /** Submits a task without the page. Resolves with its id once it is final. */
  async submitAndWait(token: string, task: string, data: object, more: object = {}): Promise<string> {
    const id = await this.submit(token, task, data, more)
    const headers = { authorization: `Bearer ${token}`, prefer: 'wait=20' }
    for (;;) {
      const answer = await fetch(`${this.url}/api/status/${id}`, { headers })
      if (((await answer.json()) as { status: string }).status !== 'processing') return id
    }
  }

  /** Closes what the test has opened. */
  async close(): Promise<void> {
    const usual = await this.#usual
    await Promise.all([
      ...(usual?.pages().map((page) => page.close()) ?? []),
      ...this.#own.splice(0).map((context) => context.close()),
    ])
  }

  async #context(options: BrowserContextOptions): Promise<BrowserContext> {
    const make = (): Promise<BrowserContext> =>
      (this.browser as Browser).newContext({ viewport: { width: 1280, height: 900 }, ...options })
    if (Object.keys(options).length === 0) return (this.#usual ??= make())
    const context = await make()
    this.#own.push(context)
    return context
  }
}

/**
 * A server and a browser for the tests of one file. The engine is memory, or what `connect` says
 * once the tests begin.
 */
export function useConsole(connect?: () => Partial<StartOptions>): ConsoleKit {
  const kit = new ConsoleKit()
  let server: RunningServer | undefined
  let watch: AnswerWatch | undefined
  before(async () => {
    server = await startServer({
      host: '127.0.0.1', port: 0, tokens: parseTokens([DEMO_TOKENS, ...OWN_TOKENS].join(',')),
      rateLimit: 100_000, callbackAllow: ['127.0.0.1'], drainMs: 100, ...connect?.(),
    })
    kit.url = server.url
    watch = await AnswerWatch.of(server.url)
    kit.browser = await openBrowser()
  })
  afterEach(async () => {
    await kit.close()
    const problems = kit.problems.splice(0)
    assert.deepEqual(problems, [], 'what the page complained of')
  })
  after(async () => {
    await kit.browser?.close()
    await server?.stop()
    await watch?.stop()
    assert.deepEqual([...watch?.faults ?? []], [], 'answers that are not what /openapi.json says')
  })
  return kit
}

/** Submits a task that waits, and returns its row in the list. */
export async function submitWait(page: Page, seconds: number): Promise<Locator> {
  const before = await page.locator('.task').count()
  await page.getByLabel('Seconds').fill(String(seconds))
  await page.getByRole('button', { name: 'Submit the task' }).click()
  await page.locator('.task').nth(before).waitFor()
  const id = await page.locator('.task').first().getAttribute('data-id')
  return rowOf(page, id ?? '')
}

/** Agrees to the question that the page asks before it does something. */
export const agree = (page: Page, verb: string): Promise<void> => page.getByRole('dialog').getByRole('button', { name: verb }).click()

/** Returns the row of a task in the list. */
export const rowOf = (page: Page, taskId: string): Locator => page.locator(`.task[data-id="${taskId}"]`)

/** Resolves once a row of the list shows a state. */
export const state = (row: Locator, words: string): Promise<void> => row.locator('.badge', { hasText: words }).waitFor()

/** How full a bar is, from 0 to 100. */
export const share = (bar: Locator): Promise<number> =>
  bar.evaluate((element) => (element as unknown as { value: number }).value)

/** Resolves once an element's `value` is within bounds. */
export async function between(page: Page, selector: string, low: number, high: number): Promise<void> {
  await page.waitForFunction(([where, from, to]) => {
    const { value } = (
      globalThis as unknown as { document: { querySelector(selector: string): { value: number } } }
    ).document.querySelector(where as string)
    return value > Number(from) && value < Number(to)
  }, [selector, low, high])
}

let known = ''

/** The SHA-256 of the large file. */
export function hashOfFile(): string {
  if (known !== '') return known
  const hash = createHash('sha256')
  for (const bytes of largeFile()) hash.update(bytes)
  known = hash.digest('hex')
  return known
}
