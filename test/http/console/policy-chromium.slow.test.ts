// The console of the reference server: tokens, and what the page may do.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { useConsole } from '../kit/console.js'

const kit = useConsole()

describe('tokens of the console', () => {
  test('are kept for the tab, are required before anything is sent, and can be deleted', async () => {
    const page = await kit.open({ token: null })
    const sent: string[] = []
    page.on('request', (request) => { sent.push(request.url()) })
    await page.getByRole('button', { name: 'Submit the task' }).click()
    await page.locator('#task-error', { hasText: 'no_token Choose a token first' }).waitFor()
    assert.deepEqual(sent, [])

    await page.getByLabel('Bearer token').fill('wrong')
    await page.getByRole('button', { name: 'Use token' }).click()
    await page.locator('#session-state.bad', { hasText: 'unauthorized: ' }).waitFor()
    await page.locator('#users-error', { hasText: 'unauthorized (401)' }).waitFor()

    await page.getByRole('button', { name: 'demo-reader' }).click()
    await page.locator('#session-state.good', { hasText: 'demo-reader' }).waitFor()
    assert.equal(await page.getByRole('button', { name: 'demo-reader' }).getAttribute('aria-pressed'), 'true')
    assert.deepEqual(
      await page.evaluate('[sessionStorage.getItem("longhaul.token"), localStorage.length, document.cookie]'),
      ['demo-reader', 0, ''],
    )
    await page.reload()
    await page.locator('#users-table td').first().waitFor()
    await page.getByRole('button', { name: 'Submit the task' }).click()
    await page.locator('#task-error', { hasText: 'forbidden (403)' }).waitFor()

    await page.getByRole('button', { name: 'Forget token' }).click()
    assert.equal(await page.getByLabel('Bearer token').inputValue(), '')
    assert.equal(await page.evaluate('sessionStorage.getItem("longhaul.token")'), null)
    assert.equal(await page.locator('#users-table td').count(), 0)
  })
})

describe('the content security policy of the page', () => {
  test('allows nothing inline, nothing from other origins, and no markup in text', async () => {
    const page = await kit.open({ token: null })
    const blocked = await page.evaluate<string[]>(`(async () => {
      const seen = []
      addEventListener('securitypolicyviolation', ({ effectiveDirective }) => seen.push(effectiveDirective))
      const image = new Image()
      image.src = 'https://other.example/x.png'
      document.body.setAttribute('style', 'color: red')
      await fetch('https://other.example/').catch(() => undefined)
      try { document.body.insertAdjacentHTML('beforeend', '<b>x</b>') } catch { seen.push('trusted types') }
      const end = performance.now() + 20_000
      while (new Set(seen).size < 5 && performance.now() < end) await new Promise((resolve) => setTimeout(resolve, 10))
      return [...new Set(seen)].sort()
    })()`)
    assert.deepEqual(blocked, [
      'connect-src', 'img-src', 'require-trusted-types-for', 'style-src-attr', 'trusted types',
    ])
    // That is what it was about.
    const expected = kit.problems.splice(0)
    const about = /Content Security Policy|requires 'TrustedHTML'|^request to https:\/\/other\.example\/x\.png$/
    assert.deepEqual(expected.filter((problem) => !about.test(problem)), [])
  })

  test('shows text of other users as text', async () => {
    const page = await kit.open()
    await page.getByLabel('Lines').fill('{"id": 4, "name": "<img src=x onerror=alert(1)>"}\n<b>bold</b>\n')
    await page.getByRole('button', { name: 'Upload the lines' }).click()
    await page.locator('#upload-lines', { hasText: '<b>bold</b>' }).waitFor()
    await page.locator('#users-table', { hasText: '<img src=x onerror=alert(1)>' }).waitFor()
    assert.equal(await page.locator('#users-table img, #upload-lines b').count(), 0)
  })
})
