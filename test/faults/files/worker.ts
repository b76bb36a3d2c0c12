// A worker that writes files and is killed meanwhile: node worker.ts KIND URL NAME FOLDER.
import { setTimeout as sleep } from 'node:timers/promises'
import { createTasks } from 'longhaul'
import { openParts } from '../kit/parts.js'
import { writing } from './work.js'

const [kind = '', url = '', name = '', folder = ''] = process.argv.slice(2)
const { parts } = openParts(kind, { url, name, folder })
const work = writing(async function* () {
  yield Buffer.alloc(300_000)
  process.send?.('writing')
  await sleep(600_000)
})
createTasks({ ...parts, definitions: [work] })
process.on('disconnect', () => process.exit())
