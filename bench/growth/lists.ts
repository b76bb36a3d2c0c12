// npm run bench:lists: what the lists of tasks add to an accept and its run in memory, in instructions, without the socket. Needs valgrind.
import { buildPrograms } from '../frame/build.js'
import { table } from '../frame/table.js'
import { countJob } from '../gate/count.js'

const program = await buildPrograms('lists', { with: 'bench/gate/program.ts', without: 'bench/growth/without-lists.ts' })
const units = { warmUp: 24_000, counted: 8000 }
const rows = await Promise.all(['accept-and-run-8', 'accept-and-run-64'].map(async (job) => {
  const [withLists, without] = [await countJob(program('with'), job, units), await countJob(program('without'), job, units)]
  return [job, withLists.toFixed(0), without.toFixed(0), `${((withLists / without - 1) * 100).toFixed(1)} %`]
}))
console.log(table(['instructions', 'with lists', 'without', 'lists add'], rows))
