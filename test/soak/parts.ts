import { Redis } from 'ioredis'
import { memory } from 'longhaul/memory'
import { postgres } from 'longhaul/postgres'
import { redis } from 'longhaul/redis'
import { sqlite } from 'longhaul/sqlite'
import type { Store } from 'longhaul/stores'
import pg from 'pg'
import { withFaults, type Fault } from '../../conformance/engine/faults.js'
import type { TaskEngine } from '../../src/engine/engine.js'
import { openSqlite } from '../servers/sqlite.js'
import { Random } from './random.js'
import { LEASE_MS } from './terms.js'

interface Parts {
  readonly engine: TaskEngine
  readonly store: Store
  /** Closes the connections, after the engine and the store. */
  readonly close: () => Promise<unknown>
}

/** Opens what a process keeps its tasks in. */
export function openParts(url: string, seed: number): Parts {
  if (url.startsWith('memory')) return { ...faultyMemory(new Random(seed)), close: async () => undefined }
  if (url.startsWith('sqlite:')) {
    const database = openSqlite(url.slice('sqlite:'.length))
    return { ...sqlite({ database, leaseMs: LEASE_MS }), close: async () => { database.close() } }
  }
  if (url.startsWith('postgres')) {
    const pool = new pg.Pool({ connectionString: url, idleTimeoutMillis: 1000 })
    pool.on('error', () => undefined)
    return { ...postgres({ pool, leaseMs: LEASE_MS }), close: () => endInTime(pool) }
  }
  const retryStrategy = (tried: number): number => Math.min(50 * tried, 500)
  const client = new Redis(url, { enableAutoPipelining: true, retryStrategy })
  client.on('error', () => undefined)
  return { ...redis({ client, leaseMs: LEASE_MS }), close: async () => { client.disconnect() } }
}

/** `pool.end()` waits for a server that does not answer, so the process ends without it, as the guide says. */
async function endInTime(pool: pg.Pool): Promise<void> {
  const timer = setTimeout(() => { process.exit() }, 2000)
  await pool.end()
  clearTimeout(timer)
}

/** The engine has an outage now and then. In between, one call in ten fails, is late or slow, or its reply is lost. */
function faultyMemory(random: Random): Pick<Parts, 'engine' | 'store'> {
  const { engine, store } = memory()
  let outage: Fault | undefined
  const next = (): Fault | undefined => outage ?? (random.chance(0.9) ? undefined : faultOf(random))
  const alternate = (): void => {
    outage = outage === undefined ? random.one<Fault>(['failed', 'lost']) : undefined
    setTimeout(alternate, outage === undefined ? random.between(2000, 20_000) : random.between(200, 6000)).unref()
  }
  setTimeout(alternate, 10_000).unref()
  return { engine: withFaults(engine, next), store }
}

function faultOf(random: Random): Fault {
  const kind = random.pick({ lost: 4, failed: 4, late: 4, slow: 4, hangs: 1 })
  if (kind !== 'hangs') return kind
  return new Promise((resolve) => { setTimeout(resolve, random.between(100, 4000)) })
}
