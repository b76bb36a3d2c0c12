import { createServer } from 'node:http'
import { createConnection, createServer as createTcpServer, type Server, type Socket } from 'node:net'
import { memory } from '../../../adapters/memory/index.js'
import { toNode } from '../../../adapters/node/index.js'
import { compose, type Handler } from '../../../src/http/exchange.js'
import { cors } from '../../../src/resources/cors.js'
import { router } from '../../../src/resources/router.js'
import { resumableUpload, type ResumableUploadOptions } from '../../../src/uploads/index.js'
import { digester } from '../../unit/kit/uploads.js'
import { listen } from '../../kit/listen.js'

/** The routes of a site with uploads below `/api`, as a listener. */
export function site(options: Partial<ResumableUploadOptions> = {}, own?: Handler) {
  const { handler, seen } = digester()
  const { blobs, store } = memory()
  const files = resumableUpload(own ?? handler as Handler, {
    blobs, store, owner: 'anyone', uploadPath: '/uploads/{id}', ...options,
  })
  const api = compose(cors({ origins: '*' }), router({
    'POST|OPTIONS /files': files.create,
    'GET|HEAD|PATCH|DELETE|OPTIONS /uploads/{id}': files.resource,
  }))
  const blobsInUse = () => blobs.usage().blobs
  return { listener: toNode(api, { mountPath: '/api' }), seen, blobsInUse }
}

/** A site over node:http. */
export async function open(options?: Partial<ResumableUploadOptions>, own?: Handler) {
  const { listener, ...rest } = site(options, own)
  const server = createServer((req, res) => { listener(req, res) })
  const { port, url: base, close } = await listen(server)
  return { ...rest, port, base, close }
}

/** A connection in between that breaks after so many bytes from the client, each time. */
export class CuttingProxy {
  /** Connections that were cut. */
  cuts = 0
  readonly #sockets = new Set<Socket>()

  private constructor(private readonly server: Server, readonly port: number) {}

  /** @param limits bytes that each connection carries; the last one and later ones carry all */
  static async to(port: number, limits: number[]): Promise<CuttingProxy> {
    const server = createTcpServer()
    const proxy = new CuttingProxy(server, (await listen(server)).port)
    server.on('connection', (near) => {
      const far = createConnection({ port, host: '127.0.0.1' })
      proxy.#sockets.add(near).add(far)
      for (const socket of [near, far]) socket.on('error', () => undefined)
      far.pipe(near)
      near.on('data', (data) => {
        const left = limits[0] ?? Infinity
        far.write(data.subarray(0, left))
        if (data.byteLength <= left) {
          if (limits.length > 0) limits[0] = left - data.byteLength
          return
        }
        limits.shift()
        proxy.cuts++
        near.destroy()
        far.end()
      })
      near.on('close', () => { far.end() })
    })
    return proxy
  }

  close(): void {
    this.server.close()
    for (const socket of this.#sockets) socket.destroy()
  }
}
