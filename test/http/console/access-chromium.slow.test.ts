// The console of the reference server: by keyboard, by screen reader, in narrow windows, in the dark.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { describe, test } from 'node:test'
import type { AxeResults, RunOptions } from 'axe-core'
import type { Page } from 'playwright-core'
import { useConsole, type OpenOptions } from '../kit/console.js'

declare const axe: { run(options: RunOptions): Promise<AxeResults> }

const kit = useConsole()
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/** A page with something in each of its panels, the view of the operator included. */
async function filled(options: OpenOptions): Promise<Page> {
  const token = 'demo-admin'
  const retried = await kit.submitAndWait(token, 'wait', { ms: 0, fail: true })
  await kit.ask(token, 'POST', `/api/status/${retried}/retry`)
  await kit.submitAndWait(token, 'export-users', {})
  const page = await kit.open({ ...options, token })
  await page.getByText('History: 2 attempts').click()
  await page.getByRole('button', { name: 'Download users.ndjson' }).click()
  await page.getByText('the digest is right').waitFor()
  kit.forgiveBlobs()
  await page.locator('#operator-tasks td').first().waitFor()
  await page.getByLabel('Seconds').fill('60')
  await page.getByLabel('Callback URL').fill('http://example.com/hook')
  await page.getByRole('button', { name: 'Submit the task' }).click()
  await page.locator('#task-list .badge.running').waitFor()
  await page.getByLabel('Callback URL').fill('http://10.0.0.1/')
  await page.getByRole('button', { name: 'Submit the task' }).click()
  await page.locator('#task-error .error').waitFor()
  await page.getByLabel('Seconds').fill('0')
  await page.getByLabel('Callback URL').fill('')
  await page.getByLabel('Fail in the end').check()
  await page.getByRole('button', { name: 'Submit the task' }).click()
  await page.locator('#task-list .badge.failed').nth(1).waitFor()
  await page.getByRole('button', { name: 'Example with mistakes' }).first().click()
  await page.getByRole('button', { name: 'Upload the lines' }).click()
  await page.locator('#upload-lines td').first().waitFor()
  await page.locator('#bulk-example').click()
  await page.getByRole('button', { name: 'Create them' }).click()
  await page.locator('.refused').first().waitFor()
  await page.getByLabel('Speed').selectOption('0')
  await page.getByRole('button', { name: 'Start', exact: true }).click()
  await page.getByText('✓ The same bytes').waitFor()
  await page.locator('#versions-table td').first().waitFor()
  await page.getByText('All routes').click()
  return page
}

/** What axe-core finds, as `rule: where`. */
async function violations(page: Page): Promise<string[]> {
  await page.evaluate(AXE)
  const { violations: found, passes } = await page.evaluate(() => axe.run({ resultTypes: ['violations'] }))
  assert.ok(passes.length > 20, 'it has looked')
  return found.flatMap(({ id, nodes }) =>
    nodes.map(({ target, failureSummary }) => `${id}: ${target.join(' ')} ${failureSummary ?? ''}`),
  )
}

const overflow = (page: Page): Promise<number> =>
  page.evaluate('document.documentElement.scrollWidth - document.documentElement.clientWidth')

describe('accessibility of the console', () => {
  test('axe-core finds no fault in light and dark mode and in a window of 320 pixels, and nothing overflows', async () => {
    // Colours that are on their way to others would be judged.
    const page = await filled({ reducedMotion: 'reduce' })
    for (const [width, colorScheme] of [
      [1280, 'light'],
      [1280, 'dark'],
      [320, 'dark'],
      [320, 'light'],
    ] as const) {
      await page.setViewportSize({ width, height: 800 })
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
      assert.deepEqual(await violations(page), [], `${colorScheme}, ${width} pixels`)
      assert.equal(await overflow(page), 0, `${width} pixels`)
    }
  })

  test('axe-core finds no fault without a token', async () => {
    const page = await kit.open({ token: null, viewport: { width: 320, height: 640 } })
    assert.deepEqual(await violations(page), [])
    assert.equal(await overflow(page), 0)
  })

  test('prefers-reduced-motion is obeyed', async () => {
    const moving =
      "[...document.querySelectorAll('*')].flatMap((each) => [getComputedStyle(each), getComputedStyle(each, '::-webkit-progress-value')]).filter((style) => style.transitionDuration.split(', ').some((time) => time !== '0s') || style.animationName !== 'none' || style.scrollBehavior === 'smooth').length"
    const [still, usual] = [
      await kit.open({ token: null, reducedMotion: 'reduce' }),
      await kit.open({ token: null, reducedMotion: 'no-preference' }),
    ]
    assert.equal(await still.evaluate(moving), 0)
    assert.ok(await usual.evaluate<number>(moving) > 0)
  })
})

describe('the console by keyboard alone', () => {
  /** Presses Tab until the focus is on what `selector` names; each stop has to be visible. */
  async function tabTo(page: Page, selector: string, key = 'Tab'): Promise<void> {
    for (let presses = 0; presses < 120; presses++) {
      await page.keyboard.press(key)
      const [found, seen] = await page.evaluate<[boolean, boolean]>(`(() => {
        const at = document.activeElement
        const { width, height } = at.getBoundingClientRect()
        return [at.matches(${JSON.stringify(selector)}), at === document.body || (width > 0 && height > 0 && getComputedStyle(at).outlineStyle !== 'none')]
      })()`)
      assert.ok(seen, `the focus is seen on the way to ${selector}`)
      if (found) return
    }
    assert.fail(`no way to ${selector}`)
  }

  test('leads from the skip link to a task that is cancelled, retried and deleted, and to a page of users', async () => {
    const page = await kit.open({ token: null })
    await page.keyboard.press('Tab')
    assert.equal(await page.evaluate('document.activeElement.textContent'), 'Skip to the panels')
    await tabTo(page, '#token')
    await page.keyboard.type('demo-writer')
    await page.keyboard.press('Enter')
    await page.locator('#session-state', { hasText: 'The server knows this token' }).waitFor()
    await tabTo(page, 'nav a[href="#new-task"]')
    await page.keyboard.press('Enter')
    await tabTo(page, '#task-seconds')
    await page.keyboard.press('ControlOrMeta+a')
    await page.keyboard.type('60')
    await page.keyboard.press('Enter')
    await page.locator('.badge.running').waitFor()
    await tabTo(page, '.task button')
    await page.keyboard.press('Space')
    await page.locator('.badge.cancelled').waitFor()
    assert.equal(await page.evaluate("document.activeElement.matches('.task h3')"), true)
    await tabTo(page, '.task [aria-label^=Retry]')
    await page.keyboard.press('Enter')
    await page.locator('.badge.running').waitFor()
    await tabTo(page, '.task [aria-label^=Cancel]')
    await page.keyboard.press('Space')
    await page.locator('.badge.cancelled').waitFor()
    await tabTo(page, '.task [aria-label^=Forget]')
    await page.keyboard.press('Enter')
    await tabTo(page, 'dialog button.main', 'Shift+Tab')
    await page.keyboard.press('Enter')
    await page.locator('#task-state', { hasText: 'No tasks yet.' }).waitFor()
    assert.equal(await page.evaluate('document.activeElement.id'), 'tasks-title')
    await tabTo(page, '[data-rel=next]')
    await page.keyboard.press('Enter')
    await page.locator('#users-state', { hasText: '11 to 20 of' }).waitFor()
    assert.equal(
      await page.evaluate("document.activeElement.matches('[data-rel=next]')"),
      true,
      'the focus stays on the button',
    )
    await tabTo(page, '[data-rel=first]', 'Shift+Tab')
    await page.keyboard.press('Enter')
    await page.locator('#users-state', { hasText: '1 to 10 of' }).waitFor()
  })

  test('skips all that precedes the panels with the skip link', async () => {
    const page = await kit.open({ token: null })
    await page.keyboard.press('Tab')
    await page.keyboard.press('Enter')
    await page.keyboard.press('Tab')
    assert.equal(await page.evaluate('document.activeElement.id'), 'task-name')
  })
})
