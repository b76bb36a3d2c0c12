import type { LookupAddress } from 'node:dns'
import { lookup } from 'node:dns/promises'
import { once } from 'node:events'
import { ServerResponse, type IncomingMessage } from 'node:http'
import { connect, isIP, isIPv6, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import ipaddr from 'ipaddr.js'
import { compose, httpError, isHttpError, type Handler, type Policy } from 'longhaul'
import { toNode } from 'longhaul/node'
import type { Context } from './auth.js'

/** Options of `tunnel`. */
export interface TunnelOptions {
  /** Targets, such as `example.com:443` or `[2001:db8::1]:443`. */
  readonly allow: readonly string[]
  /** Policies that decide who may open a tunnel. They see CONNECT, and `host:port` as the path. */
  readonly policies?: readonly Policy<Context>[]
  /** Maximum time to resolve the name and to connect, in milliseconds. Default 10,000. */
  readonly connectTimeoutMs?: number
  /** Time after which an idle tunnel is closed, in milliseconds. Default 120,000. */
  readonly idleTimeoutMs?: number
  /** Maximum number of open tunnels. Default 100. */
  readonly maxTunnels?: number
  /** Resolves a host name. Default: as the operating system does. */
  readonly resolve?: (host: string) => Promise<LookupAddress[]>
}

/** A listener for the event `connect` of a server of node:http. */
export type ConnectListener = (req: IncomingMessage, socket: Duplex, head: Buffer) => void

/**
 * Opens tunnels (RFC 9110 section 9.3.6): `server.on('connect', tunnel({ allow }))`. After the 200,
 * bytes go both ways. Other requests get an error body, and their connection ends: 400 for a
 * malformed target, 403 for a target that is not in `allow`, 502 if it cannot be reached, 504 if it
 * does not respond in time, 503 if there are too many tunnels.
 *
 * @throws {TypeError} An entry of `allow` is not `host:port`.
 */
export function tunnel(options: TunnelOptions): ConnectListener {
  const { connectTimeoutMs = 10_000, idleTimeoutMs = 120_000, maxTunnels = 100 } = options
  const { policies = [], resolve = (host) => lookup(host, { all: true }) } = options
  const allowed = new Set(options.allow.map((entry) => {
    const target = readTarget(entry.trim())
    if (target) return keyOf(target)
    throw new TypeError(`${JSON.stringify(entry)} is not host:port, such as example.com:443`)
  }))
  const upstreams = new WeakMap<IncomingMessage, Socket>()
  let open = 0

  const openTunnel: Handler<Context> = async ({ path, raw, signal }) => {
    const target = readTarget(path)
    if (!target) {
      throw httpError('bad_request', { message: 'A tunnel needs a host and a port, such as example.com:443.' })
    }
    if (!allowed.has(keyOf(target))) {
      throw httpError('forbidden', { message: 'There is no tunnel to this target.' })
    }
    if (open >= maxTunnels) throw httpError('overloaded', { headers: { 'retry-after': '5' } })
    const { host, port } = target
    const upstream = connect({
      host, port, allowHalfOpen: true, noDelay: true, autoSelectFamily: true,
      lookup: (_, __, callback) => {
        void resolve(host).then((addresses): void => {
          const isAllowed = addresses.every(({ address }) => (
            isLocalName(host) || isPublic(address) || allowed.has(keyOf({ host: address, port }))
          ))
          callback(isAllowed ? null : httpError('forbidden'), addresses)
        }, (error: unknown) => { callback(error as NodeJS.ErrnoException, []) })
      },
    })
    open++
    upstream.on('error', () => {}).once('close', () => { open-- })
    const timer = setTimeout(() => upstream.destroy(httpError('gateway_timeout')), connectTimeoutMs)
    signal.addEventListener('abort', () => upstream.destroy(httpError('bad_gateway')))
    try {
      await once(upstream, 'connect')
    } catch (error) {
      // The client does not get the message of the system, which describes the inner network.
      throw isHttpError(error) ? error : httpError('bad_gateway', { cause: error })
    } finally {
      clearTimeout(timer)
    }
    upstreams.set((raw as { req: IncomingMessage }).req, upstream)
    return undefined
  }
  const listener = toNode(compose<Context>(proxyCredentials, ...policies, openTunnel))

  return (req, stream, head) => {
    const socket = stream as Socket
    const response = new ServerResponse(req)
    response.shouldKeepAlive = false
    response.assignSocket(socket)
    response.once('finish', () => socket.end())
    const leave = (): void => { socket.destroy() }
    // A socket reports its end only if it is read.
    socket.on('error', leave).on('end', leave).on('readable', noop)
    listener(req, response, () => {
      const upstream = upstreams.get(req)
      if (!upstream || socket.destroyed) {
        upstream?.destroy()
        return
      }
      response.detachSocket(socket)
      socket.off('end', leave).off('readable', noop)
      socket.write('HTTP/1.1 200 Connection Established\r\n\r\n')
      join(socket, upstream, head, idleTimeoutMs)
    })
  }
}

interface Target { readonly host: string, readonly port: number }

const TARGET = /^(?:\[([0-9A-Fa-f:.]{2,45})\]|([A-Za-z0-9._-]{1,253})):([0-9]{1,5})$/

/** Reads `example.com:443` or `[2001:db8::1]:443`. Returns `undefined` for other strings. */
export function readTarget(text: string): Target | undefined {
  const [, address, name, digits] = TARGET.exec(text) ?? []
  const host = (address ?? name)?.toLowerCase()
  const port = Number(digits)
  if (host === undefined || !(port >= 1 && port <= 65_535)) return undefined
  return address === undefined || isIPv6(address) ? { host, port } : undefined
}

function keyOf({ host, port }: Target): string {
  return `${host} ${port}`
}

/** Returns true for names that the public DNS does not have: their addresses may be private. */
function isLocalName(host: string): boolean {
  return !host.includes('.') || /\.(internal|local|localhost|home\.arpa)$/.test(host)
}

/** A public name must not lead into the private network. */
function isPublic(address: string): boolean {
  return isIP(address) !== 0 && ipaddr.process(address).range() === 'unicast'
}

/** Clients of proxies send their credentials in Proxy-Authorization. */
const proxyCredentials: Policy<Context> = (request, next) => {
  const { 'proxy-authorization': credentials, ...headers } = request.headers
  if (credentials === undefined || headers['authorization'] !== undefined) return next(request)
  return next(request.with({ headers: { ...headers, authorization: credentials } }))
}

/**
 * Sends the bytes of each connection to the other one. Each side may end its half. If one side
 * fails, or nothing moves for `idleMs`, both are reset: a plain end would look like a whole
 * transfer.
 */
function join(a: Socket, b: Socket, head: Uint8Array, idleMs: number): void {
  const reset = (): void => {
    for (const end of [a, b]) if (!end.destroyed) end.resetAndDestroy()
  }
  for (const end of [a, b]) {
    end.setTimeout(idleMs, reset).on('error', reset).once('close', () => {
      if (!end.readableEnded || !end.writableFinished) reset()
    })
  }
  b.write(head)
  a.pipe(b).pipe(a)
}

function noop(): void {}
