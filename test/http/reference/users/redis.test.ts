import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { Redis } from 'ioredis'
import { isHttpError } from 'longhaul'
import { isStoreUnavailable } from 'longhaul/stores'
import { openUsers } from '../../../../examples/reference-server/users/open.js'
import { ownCall } from '../../../../examples/reference-server/users/repository.js'
import { RedisServer } from '../../../servers/redis-server.js'
import { usersSuite } from './suite.js'

describe('the users of the reference server in a Redis', async () => {
  const server = await RedisServer.start()
  const { url } = server
  // Three processes that start at once make them once.
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

  test('are visible to other processes at once, with their changes', async () => {
    const call = ownCall()
    const { id } = await users.create({ email: 'seen@example.com' }, call)
    assert.equal((await others.update(id, { name: 'Seen' }, call))?.name, 'Seen')
    assert.equal((await users.get(id, call))?.name, 'Seen')
    assert.equal(await others.delete(id, call), true)
    assert.equal(await users.get(id, call), undefined)
    // An id that was there is not given again, whoever gives the next one.
    assert.ok((await users.create({ email: 'after@example.com' }, call)).id > id)
  })

  test('are not lost, and no email or id occurs twice, if two processes write at once', async () => {
    const call = ownCall()
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

  test('are not written by a process that has lost its lock', async () => {
    const redis = new Redis(url)
    const call = ownCall()
    const lost = users.transaction(async (inside) => {
      await inside.update(11, { name: 'Lost' }, call)
      await redis.set('longhaul-reference:users-lock', 'somebody else')
    }, call)
    await assert.rejects(lost, isStoreUnavailable)
    await redis.del('longhaul-reference:users-lock')
    redis.disconnect()
    assert.notEqual((await others.get(11, call))?.name, 'Lost')
    assert.notEqual((await users.get(11, call))?.name, 'Lost')
  })
})
