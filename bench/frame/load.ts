// The load generator, a process of its own: raw keep-alive sockets, one request at a time on each, a
// bounded count. It only counts and checks the status, so that it is never the bottleneck.
import { connect, type Socket } from 'node:net'

/** One run of load, as sent by the parent. */
export interface LoadOrder {
  readonly port: number
  /** Whole requests as text; sent in turn. */
  readonly requests: readonly string[]
  readonly expectStatus: number
  readonly count: number
  readonly connections: number
  /** Number of bodies to return, from which further requests are created. */
  readonly keepBodies?: number
}

export interface LoadReport {
  readonly seconds: number
  /** The 99th percentile of the response time, in milliseconds. */
  readonly p99: number
  readonly bodies: readonly string[]
}

const HEAD_END = Buffer.from('\r\n\r\n')
const LENGTH = /\r\ncontent-length: *(\d+)/i

/**
 * Connections between two runs, by port. They stay open: when all connections of a server are gone, its next
 * collection of all garbage drops much optimised code, and V8 compiles for thousands of requests again.
 */
const idle = new Map<number, Socket[]>()

function openTo(port: number): Socket {
  const kept = idle.get(port)?.pop()
  if (kept?.readyState === 'open') return kept
  return connect({ port, host: '127.0.0.1', noDelay: true })
}

function run(order: LoadOrder): Promise<LoadReport> {
  const requests = order.requests.map((text) => Buffer.from(text))
  const bodies: string[] = []
  const keep = order.keepBodies ?? 0
  const took: number[] = []
  const started = performance.now()
  let sent = 0
  let answered = 0
  return new Promise((resolve, reject) => {
    const sockets: Socket[] = []
    const end = (error?: Error): void => {
      for (const socket of sockets) {
        for (const event of ['connect', 'data', 'error', 'close']) socket.removeAllListeners(event)
        socket.on('error', () => undefined)
      }
      if (error) {
        for (const socket of sockets) socket.destroy()
        return reject(error)
      }
      idle.set(order.port, [...idle.get(order.port) ?? [], ...sockets])
      resolve({ seconds: (performance.now() - started) / 1000, p99: took.sort((a, b) => a - b)[Math.floor(took.length * 0.99)] ?? 0, bodies })
    }
    const open = (): void => {
      let left: Buffer | undefined
      let asked = 0
      const socket = openTo(order.port)
      const send = (): void => {
        asked = performance.now()
        if (sent < order.count) socket.write(requests[sent++ % requests.length] as Buffer)
      }
      const receive = (chunk: Buffer): void => {
        const data = left === undefined ? chunk : Buffer.concat([left, chunk])
        left = undefined
        const at = data.indexOf(HEAD_END)
        const head = at < 0 ? '' : data.toString('latin1', 0, at)
        const length = at < 0 ? undefined : LENGTH.exec(head)?.[1]
        if (at >= 0 && length === undefined) return end(new Error(`an answer without Content-Length: ${head}`))
        const whole = at + HEAD_END.length + Number(length)
        if (at < 0 || data.length < whole) {
          left = data
          return
        }
        if (Number(head.slice(9, 12)) !== order.expectStatus) return end(new Error(`expected ${order.expectStatus}, got: ${data.toString()}`))
        if (bodies.length < keep) bodies.push(data.toString('utf8', at + HEAD_END.length, whole))
        took.push(performance.now() - asked)
        if (++answered === order.count) end()
        else send()
      }
      socket.on('data', receive)
      socket.on('error', end)
      socket.on('close', () => { if (answered < order.count) end(new Error('the server closed a connection')) })
      sockets.push(socket)
      if (socket.connecting) socket.on('connect', send)
      else send()
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
