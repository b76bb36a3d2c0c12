// A worker with limits over all processes: node limited-process.ts <url>. Prints how many run at the same time.
import { createTasks } from 'longhaul'
import { openSqliteFile } from '../../servers/open-database.js'
import { LIMITS, limitedWork } from './limited-work.js'

const [, , url = ''] = process.argv
const { parts } = openSqliteFile(url, { leaseMs: 3000 })
const limited = limitedWork(url.slice('sqlite:'.length), (own, all) => {
  console.log(`running ${String(own)} ${String(all)}`)
})
createTasks({ ...parts, definitions: [limited], pools: { narrow: { concurrency: 4, ...LIMITS } } })
console.log('ready')
