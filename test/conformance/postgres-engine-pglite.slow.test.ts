import { PGlite } from '@electric-sql/pglite'
import { after } from 'node:test'
import * as runner from 'node:test'
import { engineConformance } from 'longhaul/conformance'
import { engineOptions, pgliteFixture } from './postgres-engine-fixture.js'

const pglite = await PGlite.create()
after(() => pglite.close())

engineConformance(runner, async (settings) => pgliteFixture(pglite, settings), {
  ...engineOptions, title: 'PostgresTaskEngine on PGlite', hasTransactions: false, concurrency: 2,
})
