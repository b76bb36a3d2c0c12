// A worker for tasks of which one kills it: node poison-worker.ts <redis or postgres url>.
import { createTasks } from 'longhaul'
import { openDatabase } from '../../servers/open-database.js'
import { innocent, LEASE_MS, poison } from './poison.js'

const { parts } = openDatabase(process.argv[2] ?? '', { leaseMs: LEASE_MS })
createTasks({ ...parts, definitions: [poison, innocent] })
console.log('ready')
