// A worker for the tests of this folder: node worker.ts <url> <folder> [lease]. SIGTERM closes it.
import { createTasks } from 'longhaul'
import { definitionsOf, openSite } from './work.js'

const [, , url = '', folder = '', lease] = process.argv
const site = openSite(url, folder, lease === undefined ? {} : { leaseMs: Number(lease) })
const say = (line: string): void => { console.log(line) }
const definitions = Object.values(definitionsOf(site, say))
const tasks = createTasks({ ...site.engine, definitions, onError: (error) => { console.error(error) } })
process.once('SIGTERM', () => {
  void tasks.close({ drainMs: 20_000 }).then(() => site.close()).then(() => { console.log('closed') })
})
console.log('ready')
