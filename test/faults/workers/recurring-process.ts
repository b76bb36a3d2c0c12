// A process whose firing submits its task, and then hangs: node recurring-process.ts. It reads REDIS_URL.
import { Redis } from 'ioredis'
import type { Tasks } from 'longhaul'
import { openEngine } from '../../../examples/worker/engine.js'
import { startSchedule } from '../../../examples/worker/recurring.js'

const { tasks } = openEngine({ worker: false })
const submit: Tasks['submit'] = async (definition, input, ...options) => {
  const { taskId } = await tasks.submit(definition, input, ...options)
  console.log(`submitted ${taskId}`)
  return new Promise(() => undefined)
}
const connection = new Redis(process.env['REDIS_URL'] ?? '', { maxRetriesPerRequest: null })
await startSchedule({ submit }, connection, '* * * * * *')
