// A worker of the pool `operators` that is killed: node retry-worker.ts URL NAME.
import { openRetrying } from './retry-work.js'

const [url = '', name = ''] = process.argv.slice(2)
openRetrying(url, name, ['operators'])
console.log('ready')
