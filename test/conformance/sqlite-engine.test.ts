import * as runner from 'node:test'
import { engineConformance } from 'longhaul/conformance'
import { sqliteFolder } from '../servers/sqlite.js'
import { sqliteFixture } from './sqlite-fixture.js'

const folder = sqliteFolder()

engineConformance(runner, async (settings) => sqliteFixture(folder, settings), {
  title: 'SqliteTaskEngine', toleranceMs: 100, leaseMs: 1200, timeoutMs: 20_000, removesAgainSoon: true,
  concurrency: 8,
})
