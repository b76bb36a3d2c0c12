// All writers in turn, each over a connection of its own. The client is in a process of its own, so only the server's CPU counts.
import { createServer, type RequestListener } from 'node:http'
import { once } from 'node:events'
import { spawn } from 'node:child_process'
import type { AddressInfo } from 'node:net'
import { recordsOf } from './data.js'
import { writers } from './writers.js'

const [kind, rounds] = process.argv.slice(2) as [string, string]
const all = writers(kind, recordsOf(kind))
const samples: Record<string, number[]> = {}
let bytes = 0

/** Has the answer read by `curl`-like means: a bare process that counts. */
const CLIENT = 'require(\'http\').get(process.argv[1], (res) => { let n = 0; res.on(\'data\', (c) => { n += c.length }); res.on(\'end\', () => { console.log(n) }) })'

async function cost(listener: RequestListener): Promise<number> {
  const server = createServer(listener)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const before = process.cpuUsage()
  const client = spawn(process.execPath, ['-e', CLIENT, `http://127.0.0.1:${(server.address() as AddressInfo).port}/`], { stdio: ['ignore', 'pipe', 'inherit'] })
  let text = ''
  client.stdout.on('data', (chunk) => { text += String(chunk) })
  await once(client, 'close')
  const { user, system } = process.cpuUsage(before)
  bytes = Number(text)
  if (!(bytes > 1e6)) throw new Error(`the client read ${text}`)
  server.closeAllConnections()
  server.close()
  return user + system
}

process.send?.({})
for (let round = -1; round < Number(rounds); round++) {
  for (const [name, listener] of Object.entries(all)) {
    const micros = await cost(listener)
    if (round >= 0) (samples[name] ??= []).push(micros)
  }
}
process.send?.({ samples, bytes })
process.disconnect?.()
