// One writer in its own process. The client is another process, so only the CPU time of the server counts. On request it answers once and reports its CPU microseconds.
import { createServer, type RequestListener } from 'node:http'
import { once } from 'node:events'
import { spawn } from 'node:child_process'
import type { AddressInfo } from 'node:net'
import { recordsOf } from './data.js'
import { writers } from './writers.js'

const [kind, name] = process.argv.slice(2) as [string, string]
const server = createServer(writers(kind, recordsOf(kind))[name] as RequestListener)
server.listen(0, '127.0.0.1')
await once(server, 'listening')
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`

/** A minimal client that counts the bytes of the answer. */
const CLIENT = 'require(\'http\').get(process.argv[1], (res) => { let n = 0; res.on(\'data\', (c) => { n += c.length }); res.on(\'end\', () => { console.log(n) }) })'

async function answer(): Promise<number> {
  const before = process.cpuUsage()
  const client = spawn(process.execPath, ['-e', CLIENT, url], { stdio: ['ignore', 'pipe', 'inherit'] })
  let text = ''
  client.stdout.on('data', (chunk) => { text += String(chunk) })
  await once(client, 'close')
  const { user, system } = process.cpuUsage(before)
  if (!(Number(text) > 1e6)) throw new Error(`the client read ${text}`)
  return user + system
}

process.on('message', () => { void answer().then((micros) => process.send?.({ micros })) })
process.on('disconnect', () => process.exit())
process.send?.({})
