import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import * as runner from 'node:test'
import { engineConformance, type EngineFixture, type EngineSettings } from 'longhaul/conformance'
import { openSqlite, sqliteFolder } from '../servers/sqlite.js'
import { SmallEngine } from './small-engine.js'
import { Link, snapshot } from './sqlite-fixture.js'

const folder = sqliteFolder()

function openFixture(settings: EngineSettings): EngineFixture {
  const path = join(folder, `${randomBytes(6).toString('hex')}.db`)
  const ends: (() => Promise<void>)[] = []
  return {
    open: async () => {
      const connection = openSqlite(path)
      // Passes calls to the connection, until it is frozen or cut.
      const link = new Link(connection)
      const engine = new SmallEngine(link.database, settings)
      ends.push(async () => {
        await engine.close({ drainMs: 0 })
        connection.close()
      })
      return {
        engine, freeze: () => { link.isFrozen = true }, thaw: () => { link.isFrozen = false },
        kill: () => { link.isCut = true },
      }
    },
    snapshot: async () => snapshot(path),
    close: async () => { await Promise.all(ends.map((end) => end())) },
  }
}

engineConformance(runner, async (settings) => openFixture(settings), {
  title: 'SmallEngine', toleranceMs: 100, leaseMs: 1200, timeoutMs: 20_000, removesAgainSoon: true, isBounded: true,
})
