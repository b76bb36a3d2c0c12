// The load generator for large answers: it counts bytes and keeps none.
import { connect, type Socket } from 'node:net'
import type { LoadOrder, LoadReport } from '../frame/load.js'

const HEAD_END = '\r\n\r\n'
const LENGTH = /\r\ncontent-length: *(\d+)/i

function run(order: LoadOrder): Promise<LoadReport> {
  const requests = order.requests.map((text) => Buffer.from(text))
  const started = performance.now()
  let sent = 0
  let answered = 0
  return new Promise((resolve, reject) => {
    const sockets: Socket[] = []
    const end = (error?: Error): void => {
      for (const socket of sockets) socket.destroy()
      if (error) reject(error)
      else resolve({ seconds: (performance.now() - started) / 1000, p99: 0, bodies: [] })
    }
    const open = (): void => {
      let head = ''
      let left = -1
      const socket = connect({ port: order.port, host: '127.0.0.1', noDelay: true })
      const send = (): void => {
        if (sent < order.count) socket.write(requests[sent++ % requests.length] as Buffer)
      }
      const receive = (chunk: Buffer): void => {
        if (left < 0) {
          head += chunk.toString('latin1')
          const at = head.indexOf(HEAD_END)
          if (at < 0) return
          const length = LENGTH.exec(head.slice(0, at))?.[1]
          if (length === undefined || Number(head.slice(9, 12)) !== order.expectStatus) return end(new Error(`unexpected: ${head.slice(0, at)}`))
          left = Number(length) - (head.length - at - HEAD_END.length)
        } else left -= chunk.byteLength
        if (left > 0) return
        if (left < 0) return end(new Error('more bytes than announced'))
        head = ''
        left = -1
        if (++answered === order.count) end()
        else send()
      }
      socket.on('connect', send)
      socket.on('data', receive)
      socket.on('error', end)
      socket.on('close', () => { if (answered < order.count) end(new Error('the server closed a connection')) })
      sockets.push(socket)
    }
    for (let i = 0; i < Math.min(order.connections, order.count); i++) open()
  })
}

process.on('message', (order: LoadOrder) => {
  run(order).then(
    (report) => process.send?.({ report }),
    (error: unknown) => process.send?.({ error: String(error) }),
  )
})
process.on('disconnect', () => process.exit())
process.send?.({ ready: true })
