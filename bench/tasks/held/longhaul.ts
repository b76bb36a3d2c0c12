import { createTasks, defineTask } from 'longhaul'
import { memory } from 'longhaul/memory'
import { tellHeld } from '../../frame/heap.js'
import { BODY, doWork, type Input } from '../work.js'

const report = defineTask({ name: 'report', run: (input: Input) => doWork(input) })
const { engine, store } = memory({
  maxTasks: 2_000_000, maxBytes: 4_294_967_296, maxEntriesPerOwner: 2_000_000, maxBytesPerOwner: 4_294_967_296,
})
const tasks = createTasks({ engine, store, definitions: [report] })
const count = Number(process.argv[2])

await tellHeld(count, 500, () => tasks.submit(report, JSON.parse(BODY)), async () => {
  while (engine.usage().unfinished > 0) await new Promise(setImmediate)
})
if (engine.usage().tasks < count) throw new Error('the engine has dropped tasks: they were not all held')
process.disconnect()
