// A worker that runs a sample of the guide: node guide-worker.ts <module> <export> [<statement>
// <count>]. It suspends itself
// before the statement of this text, when that comes for the count-th time.
import { createTasks } from 'longhaul'
import type { UploadTask } from 'longhaul/ndjson'
import { postgres } from 'longhaul/postgres'
import pg from 'pg'

type Sample = { readonly storage: ReturnType<typeof postgres> } & Readonly<
  Record<string, { readonly task: UploadTask }>
>

const [, , file = '', part = '', statement, count] = process.argv
let left = Number(count)
const query = pg.Client.prototype.query as (...args: unknown[]) => unknown
pg.Client.prototype.query = function (this: pg.Client, ...args: unknown[]) {
  if (args[0] === statement && --left === 0) {
    console.log('suspended')
    process.kill(process.pid, 'SIGSTOP')
  }
  return query.apply(this, args)
} as typeof pg.Client.prototype.query

const sample = await import(file) as unknown as Sample
const definition = sample[part]?.task
if (definition === undefined) throw new Error(`The sample exports no ${part}`)
const pool = new pg.Pool()
// The engine of the sample with a shorter lease.
const engine = postgres({ pool, leaseMs: 1000 })
createTasks({ ...engine, definitions: [definition], onError: (error) => { console.log('error', error) } })
console.log('ready')
