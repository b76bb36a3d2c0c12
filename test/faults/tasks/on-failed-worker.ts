// A worker that kills itself at one moment: node on-failed-worker.ts URL NAME DEATH MAX_CRASHES.
import { openFailing, type Death } from './on-failed-work.js'

const [url = '', name = '', death = 'never', maxCrashes = '3'] = process.argv.slice(2)
openFailing(url, name, { death: death as Death, maxCrashes: Number(maxCrashes) })
console.log('ready')
