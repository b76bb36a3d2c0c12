import { setTimeout as sleep } from 'node:timers/promises'
import { exportTask } from 'longhaul/export'

export const PART = 20
/** Number of times that a worker ends. */
export const KILLS = Number(process.env['KILLS'] ?? 2)
export const RECORDS = Math.max(400, PART * KILLS)

/** An export of numbers in parts. `say` gets the begin of each run, and each record that is read. */
export function exporting(say: (event: { readonly from?: number, readonly n?: number }) => void = () => undefined) {
  return exportTask({
    name: 'numbers', format: 'csv', partRecords: PART, attempts: 3,
    async* records(_, { from }) {
      say({ from: from() })
      for (let n = from(); n < RECORDS; n++) {
        await sleep(2)
        say({ n })
        yield { n, square: n * n }
      }
    },
  })
}
