import { setTimeout as sleep } from 'node:timers/promises'
import { defineTask } from 'longhaul'
import { openSqlite, type OpenSqlite } from '../../servers/sqlite.js'

/** Limits of the pool, over all processes. */
export const LIMITS = { maxRunning: 4, maxRunningPerOwner: 2 }

/** Other processes write while this one waits. */
export function openLedger(path: string): OpenSqlite {
  const ledger = openSqlite(`${path}-ledger`)
  ledger.exec('PRAGMA busy_timeout = 30000; PRAGMA journal_mode = WAL')
  ledger.exec('CREATE TABLE IF NOT EXISTS running (pid INTEGER, owner TEXT)')
  return ledger
}

/** Work that counts in a table which runs there are at the same time, and tells `note` their numbers. */
export function limitedWork(path: string, note: (own: number, all: number) => void) {
  const ledger = openLedger(path)
  const inTransaction = (work: () => void): void => {
    ledger.exec('BEGIN IMMEDIATE')
    work()
    ledger.exec('COMMIT')
  }
  return defineTask({
    name: 'limited',
    pool: 'narrow',
    run: async ({ owner }: { readonly owner: string }) => {
      inTransaction(() => {
        ledger.prepare('INSERT INTO running VALUES (?, ?)').run(process.pid, owner)
        const [row] = ledger.prepare('SELECT sum(owner = ?) AS own, count(*) AS everybody FROM running')
          .all(owner) as { own: number, everybody: number }[]
        note(Number(row?.own), Number(row?.everybody))
      })
      await sleep(20 + Math.random() * 20)
      inTransaction(() => {
        ledger.prepare(`DELETE FROM running WHERE rowid =
(SELECT rowid FROM running WHERE pid = ? AND owner = ? LIMIT 1)`).run(process.pid, owner)
      })
    },
  })
}
