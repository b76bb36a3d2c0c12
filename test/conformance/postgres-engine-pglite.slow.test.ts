import { PGlite } from '@electric-sql/pglite'
import { after } from 'node:test'
import * as runner from 'node:test'
import { engineConformance } from 'longhaul/conformance'
import { engineOptions, pgliteFixture } from './postgres-engine-fixture.js'

const pglite = await PGlite.create()
// PGlite holds no handle, and the deadline of a call that a suspended worker has lost is unref'd.
const alive = setInterval(() => undefined, 60_000)
after(() => {
  clearInterval(alive)
  return pglite.close()
})

engineConformance(runner, async (settings) => pgliteFixture(pglite, settings), {
  ...engineOptions, title: 'PostgresTaskEngine on PGlite', hasTransactions: false, concurrency: 2,
})
