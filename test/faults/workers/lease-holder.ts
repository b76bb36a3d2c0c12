// A process that runs a task which never ends: node lease-holder.ts <redis or postgres url>. Prints its id.
import { createTasks, defineTask } from 'longhaul'
import { openDatabase } from '../../servers/open-database.js'

const endless = defineTask({ name: 'endless', run: () => new Promise<never>(() => undefined) })
const { parts } = openDatabase(process.argv[2] ?? '', { leaseMs: 1000 })
const tasks = createTasks({ ...parts, definitions: [endless] })
const { taskId: id } = await tasks.submit(endless, {})
while ((await tasks.get(id))?.startedAt === undefined) continue
console.log(id)
