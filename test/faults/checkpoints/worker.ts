// A worker for the tests of this folder: node worker.ts <url> <folder> [options as JSON]. SIGTERM closes it.
import { createTasks } from 'longhaul'
import { definitionsOf, openSite, type EngineOptions } from './work.js'

const [, , url = '', folder = '', options = '{}'] = process.argv
const site = openSite(url, folder, JSON.parse(options) as EngineOptions)
const say = (line: string): void => { console.log(line) }
const definitions = Object.values(definitionsOf(site, say))
const tasks = createTasks({ ...site.engine, definitions, onError: (error) => { console.error(error) } })
process.once('SIGTERM', () => {
  void tasks.close({ drainMs: 20_000 }).then(() => site.close()).then(() => { console.log('closed') })
})
console.log('ready')
