// The console of the reference server over Redis and over PostgreSQL: the same page as over memory.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { startPostgres, type PostgresServer } from '../../servers/postgres-server.js'
import { RedisServer } from '../../servers/redis-server.js'
import { agree, rowOf, state, submitWait, useConsole, type ConsoleKit } from '../kit/console.js'

let redis: RedisServer
let postgres: PostgresServer
before(async () => { [redis, postgres] = await Promise.all([RedisServer.start(), startPostgres()]) })
after(async () => { await Promise.all([redis.stop(), postgres.stop()]) })

describe('the console over Redis', () => {
  const kit = useConsole(() => ({ redisUrl: redis.url }))
  test('lists, pages, follows, retries and deletes tasks', () => walk(kit))
})

describe('the console over PostgreSQL', () => {
  const kit = useConsole(() => ({ database: postgres.url }))
  test('lists, pages, follows, retries and deletes tasks', () => walk(kit))
})

async function walk(kit: ConsoleKit): Promise<void> {
  const token = kit.newToken()
  for (let at = 0; at < 10; at++) await kit.submitAndWait(token, 'wait', { ms: 0 })
  const failed = await kit.submitAndWait(token, 'wait', { ms: 0, fail: true })
  const page = await kit.open({ token })
  await page.locator('#task-state', { hasText: 'Page 1: 10 tasks' }).waitFor()
  await page.getByRole('button', { name: 'Next page' }).first().click()
  await page.locator('#task-state', { hasText: 'Page 2: 1 task,' }).waitFor()

  await page.getByLabel('Status', { exact: true }).selectOption('failed')
  await page.locator('#task-state', { hasText: 'Page 1: 1 task,' }).waitFor()
  const row = rowOf(page, failed)
  await row.getByRole('button', { name: 'Retry' }).click()
  await row.getByText('History: 2 attempts').waitFor()
  await state(row, 'failed')
  await row.getByRole('button', { name: 'Forget' }).click()
  await agree(page, 'Forget')
  await page.locator('#task-state', { hasText: 'No task matches the filters.' }).waitFor()
  assert.equal((await kit.ask(token, 'GET', `/api/status/${failed}`)).status, 404)

  await page.getByLabel('Status', { exact: true }).selectOption('all')
  await page.locator('#task-state', { hasText: '10 tasks' }).waitFor()
  const running = await submitWait(page, 2)
  await state(running, 'running')
  await state(running, 'completed')

  const operator = await kit.open({ token: 'demo-admin' })
  await operator.locator('#operator-counts dd').first().waitFor()
  await operator.getByLabel('Owner', { exact: true }).fill(token.replace('own', 'owner'))
  await operator.keyboard.press('Enter')
  await operator.locator('#operator-page', { hasText: 'Page 1: 10 tasks.' }).waitFor()
}
