// Waits for a second while its clock is set: node clock-waiter.ts <file that sets the clock>.
import { writeFileSync } from 'node:fs'
import { createTasks, defineTask } from 'longhaul'
import { memory } from 'longhaul/memory'

const endless = defineTask({ name: 'endless', run: () => new Promise(() => undefined) })
const tasks = createTasks({ ...memory(), definitions: [endless] })
const { taskId: id } = await tasks.submit(endless, {})
const before = Date.now()
const began = performance.now()
const waiting = tasks.wait(id, { timeoutMs: 1000 })
setTimeout(() => { writeFileSync(process.argv[2] ?? '', '-3600\n') }, 200)
const task = await waiting
console.log(JSON.stringify({ took: performance.now() - began, setBack: before - Date.now(), state: task?.status }))
process.exit()
