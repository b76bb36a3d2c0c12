// One reader, in a process of its own so that it pays for its own garbage and for nobody else's. Told to, it reads all bytes once, and tells its CPU microseconds.
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
