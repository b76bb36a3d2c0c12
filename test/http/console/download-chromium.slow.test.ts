// The console of the reference server: its large download, as somebody with a browser meets it.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, test } from 'node:test'
import type { Request } from 'playwright-core'
import { LARGE_FILE_BYTES } from '../../../examples/reference-server/large-file.js'
import { between, hashOfFile, share, useConsole } from '../kit/console.js'

const kit = useConsole()

describe('the download of the console', () => {
  test('is paused and resumed, and has the bytes of the server', async () => {
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

    const [first, second, ...more] = await Promise.all(
      asked.map(async (request) => ({ sent: request.headers(), status: (await request.response())?.status() })),
    )
    assert.equal(more.length, 0)
    assert.equal(first?.sent['range'], 'bytes=0-')
    const from = Number(/^bytes=(\d+)-$/.exec(second?.sent['range'] ?? '')?.[1])
    assert.ok(Math.abs(from / LARGE_FILE_BYTES * 100 - paused) < 0.01, `${from} is where it was paused`)
    assert.match(second?.sent['if-range'] ?? '', /^"large-file-/)
    assert.equal(second?.status, 206)

    const [saved] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('link', { name: 'Save the file' }).click(),
    ])
    const hash = createHash('sha256')
    for await (const bytes of await saved.createReadStream()) hash.update(bytes as Buffer)
    assert.equal(hash.digest('hex'), hashOfFile())
    kit.forgiveBlobs()

    await page.getByRole('button', { name: 'Start over' }).click()
    assert.equal(await share(page.locator('#download-bar')), 0)
    await page.getByRole('button', { name: 'Start', exact: true }).waitFor()
  })

  const OTHER = { status: 206, headers: { 'etag': '"x"', 'content-range': 'bytes 0-4/5' }, body: 'other' }
  const otherHash = createHash('sha256').update('other').digest('hex')

  test('detects bytes that differ from those of the server', async () => {
    const page = await kit.open()
    await page.route('**/api/files/large-file', (route) => route.fulfill(OTHER))
    await page.getByRole('button', { name: 'Start', exact: true }).click()
    await page.getByText('✗ Other bytes than the server has').waitFor()
    assert.deepEqual(await page.locator('#download-verdict .hash').allInnerTexts(), [otherHash, hashOfFile()])
  })

  test('is allowed for a reader, except for the checksum', async () => {
    const page = await kit.open({ token: 'demo-reader' })
    await page.route('**/api/files/large-file', (route) => route.fulfill(OTHER))
    await page.getByRole('button', { name: 'Start', exact: true }).click()
    await page.locator('#download-error', { hasText: 'forbidden (403)' }).waitFor()
    assert.equal(await page.locator('#download-verdict .hash').innerText(), otherHash)
    assert.equal(await page.getByRole('link', { name: 'Save the file' }).count(), 1)
  })

  test('restarts if the content changes while it is paused', async () => {
    const page = await kit.open({ token: 'demo-reader' })
    await page.getByLabel('Speed').selectOption('2097152')
    await page.getByRole('button', { name: 'Start', exact: true }).click()
    await between(page, '#download-bar', 1, 100)
    await page.getByRole('button', { name: 'Pause' }).click()
    await page.route('**/api/files/large-file', (route) =>
      route.fulfill({ ...OTHER, status: 200, headers: { 'etag': '"x"', 'content-length': '5' } }),
    )
    await page.getByRole('button', { name: 'Resume' }).click()
    await page.locator('#download-verdict .hash').waitFor()
    assert.equal(await page.locator('#download-verdict .hash').innerText(), otherHash)
    await page.locator('#announcer', { hasText: 'begins anew' }).waitFor({ state: 'attached' })
  })
})
