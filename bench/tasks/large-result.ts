// npm run bench:result: CPU of a synchronous response with a result of 600 KB, beside JSON.stringify and the bytes of its text. Without the socket.
import { createTasks, defineTask, router, taskEndpoints } from 'longhaul'
import { memory } from 'longhaul/memory'
import { table } from '../frame/table.js'
import { call } from '../gate/accept.js'
import { BareRequest, headersOf } from '../gate/request.js'

const ROUNDS = 40
const PER_ROUND = 5
const result = {
  rows: Array.from({ length: 6000 }, (_, n) => ({ id: n, name: `User ${n}`, email: `user${n}@example.org`, role: 'reader', note: 'plain text' })),
}
const direct = defineTask({ name: 'direct', run: () => result })
/** A second attempt needs a task, so that the result is stored and read again. */
const stored = defineTask({ name: 'stored', attempts: 2, run: () => result })
const tasks = createTasks({ ...memory(), definitions: [direct, stored] })
const { submit } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
const handler = router({ 'POST /direct': submit(direct), 'POST /stored': submit(stored) })
const BODY = Buffer.from('{}')
const headers = headersOf({ 'content-type': 'application/json' }, BODY)

const respond = (path: string) => async (): Promise<number> => (
  Buffer.byteLength((await call(handler, new BareRequest('POST', path, headers, BODY), 200)).body as string)
)
const CASES: Readonly<Record<string, () => Promise<number> | number>> = {
  'JSON.stringify': () => Buffer.byteLength(JSON.stringify(result)),
  'without a task': respond('/direct'),
  'with a task': respond('/stored'),
}

/** Least CPU of one call in milliseconds, because other load makes rounds dearer. */
const least = new Map<string, number>()
for (let round = 0; round < ROUNDS; round++) {
  for (const [name, work] of Object.entries(CASES)) {
    const before = process.cpuUsage()
    for (let n = 0; n < PER_ROUND; n++) await work()
    const { user, system } = process.cpuUsage(before)
    least.set(name, Math.min(least.get(name) ?? Infinity, (user + system) / 1000 / PER_ROUND))
  }
}
await tasks.close()
const text = least.get('JSON.stringify') ?? 0
console.log(table(
  [`a result of ${Math.round(JSON.stringify(result).length / 1000)} KB`, 'CPU, ms', 'beyond the text, ms'],
  [...least].map(([name, ms]) => [name, ms.toFixed(2), (ms - text).toFixed(2)]),
))
