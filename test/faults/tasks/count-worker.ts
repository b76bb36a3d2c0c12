// A worker that is killed: node count-worker.ts URL NAME.
import { openCounting } from './count-work.js'

const [url = '', name = ''] = process.argv.slice(2)
openCounting(url, name, true)
console.log('ready')
