// A worker, or a process that submits: node side.ts <redis or postgres url> <work | submit | submit-long> <name>.
// Says when it is ready, and what it runs.
import { createTasks, defineTask } from 'longhaul'
import { openDatabase } from '../../servers/open-database.js'

const [, , url = '', role = '', name = ''] = process.argv
const work = defineTask({
  name: 'work',
  async run({ ms }: { ms: number }, { taskId }) {
    console.log(`ran ${String(taskId)}`)
    await new Promise((resolve) => { setTimeout(resolve, ms) })
    console.log(`ended ${String(taskId)}`)
  },
})
const tasks = createTasks({
  ...openDatabase(url, { name, leaseMs: 2000 }).parts,
  definitions: [work],
  worker: role === 'work',
  concurrency: 1,
})
if (role === 'submit') await tasks.submit(work, { ms: 1 }, { id: 'task', delayMs: 4000 })
if (role === 'submit-long') await tasks.submit(work, { ms: 6000 }, { id: 'task' })
console.log('ready')
