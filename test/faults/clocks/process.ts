// A process that runs its tasks itself: node process.ts <redis or postgres url> <name>. Says what it has begun.
import { createTasks, defineTask } from 'longhaul'
import { openDatabase } from '../../servers/open-database.js'

const [, , url = '', name = ''] = process.argv
const quick = defineTask({ name: 'quick', run: () => 'done' })
const endless = defineTask({ name: 'endless', run: (_input, { signal }) => new Promise((_, reject) => {
  signal.addEventListener('abort', () => { reject(signal.reason as Error) })
}) })
// Lifetimes that are much shorter than the skew.
const tasks = createTasks({
  ...openDatabase(url, { name, leaseMs: 2000 }).parts,
  definitions: [quick, endless],
  pendingMs: 20_000,
  retentionMs: 20_000,
})
const running = await tasks.submit(endless, {})
const ended = await tasks.submit(quick, {})
await tasks.wait(ended.taskId, { timeoutMs: 10_000 })
while ((await tasks.get(running.taskId))?.startedAt === undefined) continue
console.log(JSON.stringify({ now: Date.now(), running: running.taskId, ended: ended.taskId }))
