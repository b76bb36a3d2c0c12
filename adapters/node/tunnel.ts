import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { guard, type OnError } from '../../src/http/boundary.js'
import { httpError } from '../../src/http/errors.js'
import {
  compose, type HttpRequest, type HttpResponse, type Policy,
} from '../../src/http/exchange.js'
import { checkNames } from '../../src/runtime/option-names.js'
import { headersOf } from './host.js'
import { answerRaw, bareRequest, headText } from './raw-answer.js'
import type { ResolveHost } from '../../src/callbacks/lookup.js'
import { reach } from './tunnel-connect.js'
import { join } from './tunnel-join.js'
import { readAuthority, TunnelRules } from './tunnel-target.js'

/** Options of `tunnel`. Times are in milliseconds. */
export interface TunnelOptions<C = unknown> {
  /** The hosts and ports that tunnels may lead to: `example.com:443`, `[2001:db8::1]:443`. */
  readonly allow: readonly string[]
  /**
   * Policies that decide who may open a tunnel, outermost first as in `compose`. They see CONNECT
   * with `host:port` as the path. Credentials may be in Authorization or, as clients of proxies
   * send them, in Proxy-Authorization. Default: everybody may.
   */
  readonly policies?: readonly Policy<C>[]
  /** Creates the context that policies see. Default: `{}`. */
  readonly context?: (req: IncomingMessage) => C
  /** Receives errors that are not the client's; see `guard`. */
  readonly onError?: OnError
  /** Maximum time to resolve and connect. Default 10 000. */
  readonly connectTimeoutMs?: number
  /** Time after which an idle tunnel is closed. Default 120 000. */
  readonly idleTimeoutMs?: number
  /** Maximum number of tunnels at once; one more is 503 `overloaded`. Default 100. */
  readonly maxTunnels?: number
  /**
   * Resolves host names. Default: names that are never public (`db`, `x.internal`) as the operating
   * system does; public names by queries to the name servers of `dns.getServers()`, for at most 5 s.
   */
  readonly resolve?: ResolveHost
}

const KNOWN = {
  allow: 0, policies: 0, context: 0, onError: 0, connectTimeoutMs: 0, idleTimeoutMs: 0,
  maxTunnels: 0, resolve: 0,
} satisfies Record<keyof TunnelOptions, 0>
const LEAVING = ['end', 'close', 'error'] as const

/** The type of the option `connect` of `attach`. */
export type ConnectListener = (req: IncomingMessage, socket: Duplex, head: Buffer) => Promise<void>

/**
 * Opens tunnels (RFC 9110 section 9.3.6). After 200, bytes go both ways at the speed of the slower
 * side. Each side may end its half; if one fails, the other is destroyed.
 *
 * Otherwise the client gets an error body, and the connection ends: 400 `bad_request` for a target
 * that is no `host:port`, the answer of the policies, 403 `forbidden` for a target that `allow`
 * does not list, 502 `bad_gateway` if it cannot be reached, 504 `gateway_timeout` if it does not
 * answer in time, 503 `overloaded`. A public name with a private address is forbidden, unless that
 * address is listed too.
 *
 * @example
 * attach(server, handler, { connect: tunnel({ allow: ['internal.example.com:443'] }) })
 *
 * @throws {TypeError} An option is not valid or unknown.
 */
export function tunnel<C = unknown>(options: TunnelOptions<C>): ConnectListener {
  checkNames('tunnel', options, KNOWN)
  const { policies = [], context, onError, resolve } = options
  const { connectTimeoutMs = 10_000, idleTimeoutMs = 120_000, maxTunnels = 100 } = options
  const rules = new TunnelRules(options.allow)
  for (const [name, value] of Object.entries({ connectTimeoutMs, idleTimeoutMs, maxTunnels })) {
    if (!(Number.isInteger(value) && value >= 1 && value < 2 ** 31)) {
      throw new TypeError(`tunnel: ${name} must be a whole number from 1`)
    }
  }
  const upstreams = new WeakMap<object, Socket>()
  let open = 0

  const connect = async ({ path, raw, signal }: HttpRequest<C>): Promise<HttpResponse> => {
    const target = readAuthority(path)
    if (!target) {
      const message = 'A tunnel leads to a host and a port, such as example.com:443.'
      throw httpError('bad_request', { message })
    }
    if (!rules.allows(target)) {
      const message = 'No tunnel leads there: tunnel({ allow }) does not name this target.'
      throw httpError('forbidden', { message })
    }
    if (open >= maxTunnels) throw httpError('overloaded', { headers: { 'retry-after': '5' } })
    open++
    try {
      const upstream = await reach(target, { rules, resolve, timeoutMs: connectTimeoutMs, signal })
      open++
      upstream.once('close', () => { open-- })
      upstreams.set(raw as object, upstream)
    } finally {
      open--
    }
    return { status: 200, headers: {} }
  }
  const handle = guard(compose<C>(...policies, connect), onError === undefined ? {} : { onError })

  return async (req, socket, head) => {
    const leaving = new AbortController()
    const gone = (): void => { leaving.abort() }
    for (const event of LEAVING) socket.on(event, gone)
    // A stream that is not read reports no end.
    socket.on('readable', ignore)
    const sent = headersOf(req)
    const { authorization = sent['proxy-authorization'], ...fields } = sent
    const headers = { ...fields, ...authorization !== undefined && { authorization } }
    const bare = bareRequest(headers, 'CONNECT', req.url, req.socket.remoteAddress, req)
    const request = bare.with({
      signal: () => leaving.signal, context: (context ? context(req) : {}) as C,
    })
    const answer = await handle(request)
    socket.off('end', gone).off('readable', ignore)
    const upstream = upstreams.get(req)
    if (upstream && answer && answer.status < 300 && !socket.destroyed) {
      socket.write(headText(answer, 'Connection Established'))
      join(socket, upstream, head, idleTimeoutMs)
    } else {
      upstream?.destroy()
      answerRaw(socket, answer)
    }
  }
}

function ignore(): void {}
