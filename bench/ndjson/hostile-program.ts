// A server of uploads that measures its own event loop. `begin` resets it. `end` reports the maximum delay of timers, and the
// CPU time between two turns, which is the delay that the server itself causes.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { ndjsonUpload } from 'longhaul/ndjson'
import { toNode } from 'longhaul/node'

const delay = monitorEventLoopDelay({ resolution: 1 })
let cpu = process.cpuUsage()
let last = cpu
let stretch = 0
let timer: NodeJS.Timeout | undefined

function look(): void {
  const { user, system } = process.cpuUsage(last)
  last = process.cpuUsage()
  stretch = Math.max(stretch, user + system)
}

const server = createServer(toNode(ndjsonUpload({ write: () => undefined, maxLineBytes: 16 << 20 })))
process.on('message', (told) => {
  if (told === 'begin') {
    delay.reset()
    delay.enable()
    cpu = last = process.cpuUsage()
    stretch = 0
    timer = setInterval(look, 1)
    process.send?.({})
  } else {
    delay.disable()
    look()
    clearInterval(timer)
    const { user, system } = process.cpuUsage(cpu)
    process.send?.({ max: delay.max / 1e6, high: delay.percentile(99) / 1e6, stretch: stretch / 1000, cpu: (user + system) / 1000 })
  }
})
process.on('disconnect', () => process.exit())
server.listen(0, '127.0.0.1', () => { process.send?.({ port: (server.address() as AddressInfo).port }) })
