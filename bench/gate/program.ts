// One job in a process of its own: program.mjs <job> <warm-up> <counted>. Tells when it is warm, and does a counted part for each `go`.
import { once } from 'node:events'
import { JOBS } from './jobs.js'

const [name = '', warmUp, counted] = process.argv.slice(2)
const prepare = JOBS[name]
if (!prepare) throw new Error(`there is no job ${name}`)

const job = await prepare()
await job.run(Number(warmUp))
globalThis.gc?.()
// The collection drops optimised code of V8 that belongs to classes without a living object. What V8 does to
// compile it again is no cost of the job.
await job.run(Number(counted))
for (let told = 'warm'; ; told = 'done') {
  process.send?.(told)
  const [order] = await once(process, 'message') as [string]
  if (order !== 'go') break
  await job.run(Number(counted))
}
await job.close?.()
process.disconnect()
