// A process with tasks in a file of SQLite: node process.ts <url> <submits | runs> <first number>
// [full | normal]. Prints
// each accepted task.
import { writeSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { createTasks, defineTask } from 'longhaul'
import { openSqliteFile } from '../../servers/open-database.js'

const [, , url = '', role = '', first = '0', synchronous = 'full'] = process.argv

const { parts } = openSqliteFile(url, { leaseMs: 400, synchronous: synchronous === 'normal' ? 'normal' : 'full' })
const count = defineTask({
  name: 'count',
  run: async (input: { readonly n: number }) => {
    await sleep(2)
    return input
  },
})
const tasks = createTasks({ ...parts, definitions: [count] })
console.log('ready')
for (let n = Number(first); role === 'submits'; n++) {
  const { taskId: id } = await tasks.submit(count, { n })
  // Written at once, because the process may be killed here.
  writeSync(1, `accepted ${id} ${String(n)}\n`)
}
