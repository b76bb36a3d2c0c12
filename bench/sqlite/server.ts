// Accepts tasks and runs them, where STORAGE says: memory, or SQLite with `full` or `normal`. Measures its event loop.
import { createServer } from 'node:http'
import { monitorEventLoopDelay, performance } from 'node:perf_hooks'
import { createTasks, defineTask, router, taskEndpoints } from 'longhaul'
import { memory } from 'longhaul/memory'
import { toNode } from 'longhaul/node'
import { sqlite, type SqliteDatabase } from 'longhaul/sqlite'
import { subject } from '../frame/subject.js'
import { doWork, type Input } from '../tasks/work.js'
import { openNewFile } from './open.js'

/** Delay of the event loop, and the time of a COMMIT, in milliseconds. */
export interface Delays {
  readonly loop: readonly [median: number, p99: number]
  readonly commit: readonly [median: number, p99: number]
  readonly commits: number
}

const storage = process.env['STORAGE']
const delay = monitorEventLoopDelay({ resolution: 1 })
let commits: number[] = []

/** Opens a new file, and measures the time of each COMMIT. */
function open(): SqliteDatabase {
  const database = openNewFile()
  const exec = database.exec.bind(database)
  database.exec = (sql) => {
    if (sql !== 'COMMIT') return exec(sql)
    const began = performance.now()
    exec(sql)
    commits.push(performance.now() - began)
    return undefined
  }
  return database
}

const parts = storage === 'full' || storage === 'normal' ? sqlite({ database: open(), synchronous: storage }) : memory()
const report = defineTask({ name: 'report', maxPerOwner: Infinity, run: (input: Input) => doWork(input) })
const tasks = createTasks({ ...parts, definitions: [report] })
const { submit, status } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
subject(createServer(toNode(router({ 'POST /reports': submit(report), 'GET|HEAD|DELETE /tasks/{id}': status }))))

process.on('message', (message) => {
  if (message === 'begin') {
    delay.reset()
    delay.enable()
    commits = []
    process.send?.('began')
  }
  if (message !== 'delays') return
  delay.disable()
  const [median = 0, p99 = 0] = [0.5, 0.99].map((share) => commits.sort((a, b) => a - b)[Math.floor(commits.length * share)])
  const told: Delays = {
    loop: [delay.percentile(50) / 1e6, delay.percentile(99) / 1e6], commit: [median, p99], commits: commits.length,
  }
  process.send?.(told)
})
