// One reader in its own process, so that it collects its own garbage only. On request it reads all bytes once and reports its CPU microseconds.
import { bytesOf } from './data.js'
import { READERS, type Reader } from './readers.js'

const [kind, name] = process.argv.slice(2) as [string, string]
const bytes = bytesOf(kind)
const reader = READERS[name] as Reader

async function once(): Promise<number> {
  const before = process.cpuUsage()
  const good = await reader(bytes)
  const { user, system } = process.cpuUsage(before)
  if (good < 1000) throw new Error(`${name} read ${good} records`)
  return user + system
}

process.on('message', () => { void once().then((micros) => process.send?.({ micros })) })
process.on('disconnect', () => process.exit())
process.send?.({})
