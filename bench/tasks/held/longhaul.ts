import { createTasks, defineTask } from 'longhaul'
import { memory } from 'longhaul/memory'
import { tellHeld } from '../../frame/heap.js'
import { BODY, doWork, type Input } from '../work.js'

const report = defineTask({ name: 'report', run: (input: Input) => doWork(input) })
const { store, queue } = memory({ maxEntries: 2_000_000, maxBytes: 4_294_967_296 })
const tasks = createTasks({ store, queue, definitions: [report] })
const count = Number(process.argv[2])

await tellHeld(count, 500, () => tasks.submit(report, JSON.parse(BODY)), async () => {
  for (let usage = queue.usage(); usage.running + usage.waiting > 0; usage = queue.usage()) await new Promise(setImmediate)
})
if (store.usage().entries < count) throw new Error('the store has dropped tasks: they were not all held')
process.disconnect()
