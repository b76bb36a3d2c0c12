// A worker that is killed, or kills itself: node ask-worker.ts URL NAME DEATH.
import { openAsking, type Death } from './ask-work.js'

const [url = '', name = '', death = 'never'] = process.argv.slice(2)
openAsking(url, name, { worker: true, death: death as Death })
console.log('ready')
