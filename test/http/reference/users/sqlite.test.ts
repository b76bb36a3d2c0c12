import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { isHttpError } from 'longhaul'
import { isStoreUnavailable } from 'longhaul/stores'
import { openFile } from '../../../../examples/reference-server/sqlite-file.js'
import { ConfigError } from '../../../../examples/reference-server/config.js'
import { openUsers } from '../../../../examples/reference-server/users/open.js'
import { ownCall } from '../../../../examples/reference-server/users/repository.js'
import { sqliteFolder, sqliteUrl } from '../../../servers/sqlite.js'
import { usersSuite } from './suite.js'

describe('the users of the reference server in a file of SQLite', async () => {
  const url = await sqliteUrl()
  // Three that open a new file at once make one table.
  const [users, others] = await Promise.all([
    openUsers(url),
    openUsers(url),
    openUsers(url).then((third) => third.close()),
  ])
  after(() => Promise.all([users.close(), others.close()]))
  const call = ownCall()

  usersSuite(async () => users, true)

  test('are visible to another connection at once after the commit, and not before', async () => {
    const { id } = await users.create({ email: 'seen@example.com' }, call)
    await others.transaction(async (inside) => {
      await inside.update(id, { name: 'Seen' }, call)
      assert.equal((await users.get(id, call))?.name, '')
      assert.equal((await others.get(id, call))?.name, '')
    }, call)
    assert.equal((await users.get(id, call))?.name, 'Seen')
    assert.equal(await others.delete(id, call), true)
    assert.ok((await users.create({ email: 'after@example.com' }, call)).id > id)
  })

  test('are not lost, and no email or id occurs twice, if two connections write at once', async () => {
    const outcomes = await Promise.all(
      Array.from({ length: 40 }, async (_, at) =>
        (at % 2 === 0 ? users : others).createMany(
          [{ email: `race-${at}@example.com` }, { email: `race-same-${at >> 2}@example.com` }],
          call,
        ),
      ),
    )
    const made = outcomes.flat().filter((outcome) => !isHttpError(outcome)) as { id: number, email: string }[]
    assert.deepEqual(
      [made.length, new Set(made.map(({ id }) => id)).size, new Set(made.map(({ email }) => email)).size],
      [50, 50, 50],
    )
  })

  test('cannot be written while another process keeps the lock, and can be written afterwards', async () => {
    const other = openFile(url.slice('sqlite:'.length))
    other.exec('BEGIN IMMEDIATE')
    await assert.rejects(async () => users.create({ email: 'locked@example.com' }, call), isStoreUnavailable)
    assert.equal((await users.get(1, call))?.id, 1)
    other.exec('COMMIT')
    other.close()
    assert.equal((await users.create({ email: 'locked@example.com' }, call)).email, 'locked@example.com')
  })

  test('commit with the cursor of an import, which a suspended process cannot replace', async () => {
    await users.transaction(async ({ imports }) => imports?.replace('task', 'one', undefined), call)
    assert.equal(await others.imports?.read('task'), 'one')
    const stopped = users.transaction(async (inside) => {
      await inside.imports?.replace('task', 'two', 'one')
      throw new Error('stop')
    }, call)
    await assert.rejects(stopped, /stop/)
    await others.transaction(async ({ imports }) => imports?.replace('task', 'other two', 'one'), call)
    const late = users.transaction(async ({ imports }) => imports?.replace('task', 'two', 'one'), call)
    await assert.rejects(late, { code: 'attempt_replaced' })
    assert.equal(await users.imports?.read('task'), 'other two')
  })
})

test('an unusable SQLite file stops the start with its name', async () => {
  const folder = sqliteFolder()
  const text = join(folder, 'text.db')
  writeFileSync(text, 'This is no database. '.repeat(100))
  for (const path of [text, join(folder, 'missing', 'data.db')]) {
    await assert.rejects(
      openUsers(`sqlite:${path}`),
      (error) => error instanceof ConfigError && error.message.includes(`the file ${path} cannot be used: `),
    )
  }
})
