// The load of whole jobs, a process of its own: on each connection a submission, then polls until the task has ended.
import { connect } from 'node:net'
import type { LoadOrder, LoadReport } from '../frame/load.js'

const HEAD_END = Buffer.from('\r\n\r\n')
const LENGTH = /\r\ncontent-length: *(\d+)/i
const ID = /"taskId":"([^"]+)"/

/** `requests` are the submission, and the poll with `{id}` in it. `count` counts whole jobs. */
function run({ port, requests, count, connections }: LoadOrder): Promise<LoadReport> {
  const [submit = '', poll = ''] = requests
  const took: number[] = []
  const started = performance.now()
  let begun = 0
  return new Promise((resolve, reject) => {
    const sockets = Array.from({ length: Math.min(connections, count) }, () => connect({ port, host: '127.0.0.1', noDelay: true }))
    const end = (error?: Error): void => {
      for (const socket of sockets) socket.destroy()
      const p99 = took.sort((a, b) => a - b)[Math.floor(took.length * 0.99)] ?? 0
      if (error) reject(error)
      else resolve({ seconds: (performance.now() - started) / 1000, p99, bodies: [] })
    }
    for (const socket of sockets) {
      let left: Buffer | undefined
      let id = ''
      let since = 0
      const begin = (): void => {
        if (begun++ >= count) return
        id = ''
        since = performance.now()
        socket.write(submit)
      }
      socket.on('connect', begin)
      socket.on('error', end)
      socket.on('close', () => { if (took.length < count) end(new Error('the server closed a connection')) })
      socket.on('data', (chunk) => {
        const data = left === undefined ? chunk : Buffer.concat([left, chunk])
        left = undefined
        const at = data.indexOf(HEAD_END)
        const head = at < 0 ? '' : data.toString('latin1', 0, at)
        if (at < 0 || data.length < at + HEAD_END.length + Number(LENGTH.exec(head)?.[1])) {
          left = data
          return
        }
        const body = data.toString('utf8', at + HEAD_END.length)
        const status = Number(head.slice(9, 12))
        if (status !== (id === '' ? 202 : 200)) return end(new Error(`not expected: ${data.toString()}`))
        if (id !== '' && body.includes('"status":"completed"')) {
          took.push(performance.now() - since)
          if (took.length === count) end()
          else begin()
          return
        }
        if (id === '') id = ID.exec(body)?.[1] ?? ''
        socket.write(poll.replace('{id}', id))
      })
    }
  })
}

process.on('message', (order: LoadOrder) => {
  run(order).then((report) => process.send?.({ report }), (error: unknown) => process.send?.({ error: String(error) }))
})
process.on('disconnect', () => process.exit())
process.send?.({ ready: true })
