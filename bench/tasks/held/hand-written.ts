import { tellHeld } from '../../frame/heap.js'
import { accept, pending } from '../flow.js'
import { BODY, type Input } from '../work.js'

const turn = () => new Promise(setImmediate)

await tellHeld(Number(process.argv[2]), 500, () => accept(JSON.parse(BODY) as Input), async () => {
  await turn()
  await turn()
})
if (pending() > 0) throw new Error('not all tasks have ended')
process.disconnect()
