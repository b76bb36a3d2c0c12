// A worker of the pool `operators` that is killed or drained: node retry-worker.ts URL NAME.
import { openRetrying } from './retry-work.js'

const [url = '', name = ''] = process.argv.slice(2)
const { tasks, close } = openRetrying(url, name, ['operators'])
process.once('SIGTERM', () => { void tasks.close({ drainMs: 5000 }).then(close) })
console.log('ready')
