// All readers in turn, on the same bytes. Tells CPU microseconds for each run.
import { bytesOf } from './data.js'
import { NO_BAD_LINES, READERS } from './readers.js'

const [kind, rounds] = process.argv.slice(2) as [string, string]
const bytes = bytesOf(kind)
const samples: Record<string, number[]> = {}
process.send?.({})
for (let round = -1; round < Number(rounds); round++) {
  for (const [name, reader] of Object.entries(READERS)) {
    if (kind === '1 % malformed' && NO_BAD_LINES.has(name)) continue
    const before = process.cpuUsage()
    const good = await reader(bytes)
    const { user, system } = process.cpuUsage(before)
    if (good < 1000) throw new Error(`${name} read ${good} records`)
    if (round >= 0) (samples[name] ??= []).push(user + system)
  }
}
process.send?.({ samples, bytes: bytes.length })
process.disconnect?.()
