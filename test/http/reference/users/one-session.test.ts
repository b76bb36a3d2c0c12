import { after, describe } from 'node:test'
import { openUsers } from '../../../../examples/reference-server/users/open.js'
import { PgliteServer } from '../../../servers/pglite-server.js'
import { usersSuite } from './suite.js'

describe('the users of the reference server behind the wire of a PostgreSQL that has one session', async () => {
  const server = await PgliteServer.start()
  const users = await openUsers(server.url)
  after(async () => {
    await users.close()
    await server.stop()
  })
  usersSuite(async () => users, true)
})
