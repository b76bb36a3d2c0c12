import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import pg from 'pg'
import { openSqlite } from '../servers/sqlite.js'
import type { Ledger } from './ledger.js'

interface Left {
  /** How many there are of each kind. */
  readonly counts: Readonly<Record<string, number>>
  /** What should not be there. */
  readonly wrong: readonly string[]
}

/**
 * What is left on the server: one row or hash for each task, and nothing of any run. A task whose
 * submission got no response may take a while until it has ended.
 */
export async function checkLeft(url: string, ledger: Ledger, ms: number): Promise<Left['counts']> {
  const end = performance.now() + ms
  for (;;) {
    const kind = url.slice(0, url.indexOf(':'))
    const { counts, wrong } = await LEFT[kind]?.(url) ?? { counts: {}, wrong: [] }
    if (wrong.length > 0 && performance.now() < end) {
      await sleep(1000)
      continue
    }
    for (const what of wrong) ledger.fault(what)
    const { tasks = 0 } = counts
    const { promised: { size }, unsure } = ledger
    if (tasks < size || tasks > size + unsure) {
      ledger.fault(`${String(tasks)} tasks are stored of ${String(size)}`)
    }
    return counts
  }
}

const LEFT: Readonly<Record<string, (url: string) => Promise<Left>>> = {
  postgres: rowsOf, redis: keysOf, sqlite: rowsOfFile,
}

async function rowsOf(url: string): Promise<Left> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    const { rows: [row] } = await client.query<Record<string, number>>(`select count(*)::int as tasks,
      count(*) filter (where status < 2)::int as unfinished,
      count(*) filter (where callback_at is not null)::int as callbacks,
      count(*) filter (where lease_until is not null)::int as leases,
      (select count(*) from longhaul.entries)::int as entries from longhaul.task_rows`)
    return leftOf(row ?? {})
  } finally {
    await client.end()
  }
}

async function rowsOfFile(url: string): Promise<Left> {
  const file = openSqlite(url.slice('sqlite:'.length))
  try {
    const [row] = file.prepare(`select count(*) as tasks,
      count(*) filter (where status < 2) as unfinished,
      count(*) filter (where callbackAt is not null) as callbacks,
      count(*) filter (where lease is not null) as leases,
      (select count(*) from longhaul_entries) as entries from longhaul_tasks`).all()
    return leftOf(row as Record<string, number>)
  } finally {
    file.close()
  }
}

function leftOf(counts: Readonly<Record<string, number>>): Left {
  const wrong = ['unfinished', 'callbacks', 'leases'].filter((kind) => Number(counts[kind]) !== 0)
  return { counts, wrong: wrong.map((kind) => `${String(counts[kind])} rows with ${kind}`) }
}

async function keysOf(url: string): Promise<Left> {
  const redis = new Redis(url)
  const counts: Record<string, number> = {}
  const wrong: string[] = []
  try {
    for await (const keys of redis.scanStream({ count: 1000 }) as AsyncIterable<string[]>) {
      for (const key of keys) {
        const kind = kindOf(key)
        counts[kind] = (counts[kind] ?? 0) + 1
        if (kind.startsWith('e:') && await redis.pttl(key) < 0) {
          wrong.push(`a ${kind} that never expires`)
        }
        if (kind === 'other') wrong.push(`a key that nobody expects: ${key}`)
        if (UNFINISHED.test(kind)) wrong.push(`a key of unfinished tasks: ${key}`)
      }
    }
    const { 'task h': tasks = 0, ...others } = counts
    const keyed = await redis.hlen('{longhaul}:engine:keys')
    if (keyed > tasks) wrong.push(`${String(keyed)} keys of ${String(tasks)} tasks`)
    // Names of definitions and pools stand there without an end.
    const expiring = await redis.zcount('{longhaul}:engine:exp', '-inf', '(+inf')
    if (expiring !== tasks) wrong.push(`${String(expiring)} of ${String(tasks)} tasks expire`)
    return { counts: { tasks, ...others }, wrong }
  } finally {
    redis.disconnect()
  }
}

/** Keys of the engine that have a task only while it is not final, or has a callback to send. */
const UNFINISHED = /^task (?:delayed|ready|q|held|run|unique|n|cb|gone)$/

/** The kind of a key: of the store, or of the engine. */
function kindOf(key: string): string {
  const task = /^\{longhaul\}:engine:(\w+)/.exec(key)?.[1]
  if (task !== undefined) return `task ${task}`
  return /^longhaul:(\w+:\w+)(?::|$)/.exec(key)?.[1] ?? 'other'
}
