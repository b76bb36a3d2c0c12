// A web process with tasks in front of a queue: node web.ts MAJOR REDIS_URL QUEUE DATABASE_URL. Prints its errors.
import { createTasks } from 'longhaul'
import { bullmqTask } from 'longhaul/bullmq'
import { openDatabase } from '../../servers/open-database.js'
import { openQueue, type Major } from './queues.js'

const [major = '6', url = '', name = '', database = ''] = process.argv.slice(2)
const { queue, events, close } = openQueue(major as Major, url, name)
await queue.waitUntilReady()
const opened = openDatabase(database, { name: 'web', leaseMs: 1500 })
const work = bullmqTask({
  name: 'work', queue, events,
  progress: (given) => {
    console.log('waiting')
    return given as { readonly done: number }
  },
})
const tasks = createTasks({
  ...opened.parts, definitions: [work], maxCrashes: 2, progressIntervalMs: 0,
  onError: (error) => { console.log(`error ${String(error)}`) },
})
process.once('SIGTERM', () => {
  void tasks
    .close({ drainMs: 20_000 })
    .then(close)
    .then(opened.close)
    .then(() => {
      process.exit(0)
    })
})
console.log('ready')
