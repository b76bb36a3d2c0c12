// The watchers, in processes of their own: many connections that each wait for the next change of one task.
import { connect, type Socket } from 'node:net'

interface Order { readonly port: number; readonly path: string; readonly count: number; readonly from: string; readonly how: 'sse' | 'poll'; readonly etag?: string }

const now = (): number => performance.timeOrigin + performance.now()
let sockets: Socket[] = []
let heard = 0
let last = 0
let waiting: (() => void) | undefined

/** Opens the watchers by the hundred, and resolves when all wait. */
async function open({ port, path, count, from, how, etag = '' }: Order): Promise<void> {
  const request = [`GET ${path} HTTP/1.1`, 'Host: a', ...how === 'sse' ? ['Accept: text/event-stream'] : ['Prefer: wait=600', `If-None-Match: ${etag}`], '', ''].join('\r\n')
  for (let at = 0; at < count; at += 200) {
    await Promise.all(Array.from({ length: Math.min(200, count - at) }, () => new Promise<void>((resolve, reject) => {
      const socket = connect({ port, host: '127.0.0.1', localAddress: from, noDelay: true })
      sockets.push(socket)
      let begun = how === 'poll'
      socket.on('error', reject)
      socket.on('connect', () => {
        socket.write(request)
        if (how === 'poll') resolve()
      })
      socket.on('data', () => {
        // The first event shows the state of the task.
        if (!begun) {
          begun = true
          resolve()
          return
        }
        last = now()
        if (++heard >= sockets.length) waiting?.()
      })
    })))
  }
}

process.on('message', (message: Order | 'next' | 'close') => {
  if (message === 'close') {
    for (const socket of sockets) socket.removeAllListeners().on('error', () => undefined).destroy()
    sockets = []
    process.send?.({ closed: true })
  } else if (message === 'next') {
    heard = 0
    const told = (): void => { process.send?.({ last, heard }) }
    const timer = setTimeout(told, 60_000)
    waiting = () => {
      clearTimeout(timer)
      waiting = undefined
      told()
    }
    process.send?.({ ready: true })
  } else void open(message).then(() => process.send?.({ open: sockets.length }), (error: unknown) => process.send?.({ error: String(error) }))
})
process.on('disconnect', () => process.exit())
process.send?.({ ready: true })
