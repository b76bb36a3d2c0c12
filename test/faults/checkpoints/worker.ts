// A worker for the tests of this folder: node worker.ts <url> <folder>. SIGTERM closes it.
import { createTasks } from 'longhaul'
import { definitionsOf, openSite } from './work.js'

const [, , url = '', folder = ''] = process.argv
const site = openSite(url, folder)
const say = (line: string): void => { console.log(line) }
const definitions = Object.values(definitionsOf(site, say))
const tasks = createTasks({ ...site.engine, definitions, sweepMs: 1000, onError: (error) => { console.error(error) } })
process.once('SIGTERM', () => {
  void tasks.close({ drainMs: 20_000 }).then(() => site.close()).then(() => { console.log('closed') })
})
console.log('ready')
