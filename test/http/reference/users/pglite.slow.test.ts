import { after, describe } from 'node:test'
import { openUsers } from '../../../../examples/reference-server/users/open.js'
import { usersSuite } from './suite.js'

describe('the users of the reference server with DATABASE=pglite', () => {
  const users = openUsers('pglite')
  after(async () => { await (await users).close() })
  usersSuite(() => users, false)
})
