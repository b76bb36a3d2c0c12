import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { isHttpError } from 'longhaul'
import { openUsers } from '../../../../examples/reference-server/users/open.js'
import { ownCall } from '../../../../examples/reference-server/users/repository.js'
import { startPostgres } from '../../../servers/postgres-server.js'
import { usersSuite } from './suite.js'

describe('the users of the reference server in a PostgreSQL', async () => {
  const server = await startPostgres()
  const { url } = server
  // Three processes that start at once make one table.
  const [users, others] = await Promise.all([
    openUsers(url),
    openUsers(url),
    openUsers(url).then((third) => third.close()),
  ])
  after(async () => {
    await Promise.all([users.close(), others.close()])
    await server.stop()
  })

  usersSuite(async () => users, true)
  test('are visible to other processes', async () => {
    const created = await users.create({ email: 'seen@example.com' }, ownCall())
    assert.deepEqual(await others.get(created.id, ownCall()), created)
  })
  test('get ids that do not collide between two processes, whether generated or chosen', async () => {
    const call = ownCall()
    const { id } = await users.create({ email: 'ids@example.com' }, call)
    const given = await Promise.all(Array.from({ length: 20 }, async (_, at) => {
      const [[one, two]] = await Promise.all([
        users.createMany([{ email: `given-${at}@example.com` }, { email: `given-too-${at}@example.com` }], call),
        others.replace(id + 1 + at * 2, { email: `chosen-${at}@example.com` }, call),
      ])
      return [one, two]
    }))
    assert.ok(given.flat().every((outcome) => outcome !== undefined && !isHttpError(outcome)))
  })
})

test('users get a 503 if their PostgreSQL is lost or missing, and work when it is there', async () => {
  const server = await startPostgres()
  const users = await openUsers(server.url)
  await server.shutDown()
  const unavailable = (error: unknown): boolean =>
    isHttpError(error) && error.status === 503 && error.headers['retry-after'] !== undefined
  await assert.rejects(async () => users.get(1, ownCall()), unavailable)
  await assert.rejects(users.transaction(async (inside) => inside.get(1, ownCall()), ownCall()), unavailable)
  await users.close()
  const early = await openUsers(server.url)
  await assert.rejects(async () => early.get(1, ownCall()), unavailable)
  await server.run()
  assert.equal((await early.get(1, ownCall()))?.id, 1)
  await early.close()
  await server.stop()
})
