import { lookup } from 'node:dns/promises'
import { connect, isIP, type Socket } from 'node:net'
import { httpError } from '../../src/http/errors.js'
import type { TunnelRules, TunnelTarget } from './tunnel-target.js'

/** Finds all addresses of a host name. */
export type ResolveHost = (host: string) => Promise<readonly { readonly address: string; readonly family: number }[]>

const systemResolve: ResolveHost = (host) => lookup(host, { all: true, verbatim: true })

/** How a tunnel's other end is reached. */
export interface ReachOptions {
  readonly rules: TunnelRules
  readonly resolve: ResolveHost | undefined
  readonly timeoutMs: number
  /** Aborted when nobody waits any more. */
  readonly signal: AbortSignal
}

/**
 * Connects to an address that was judged, and to no other. Throws `forbidden` (403), `bad_gateway`
 * (502), `gateway_timeout` (504).
 */
export async function reach(
  target: TunnelTarget, { rules, resolve = systemResolve, timeoutMs, signal }: ReachOptions,
): Promise<Socket> {
  const deadline = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)])
  try {
    const family = isIP(target.host)
    const found = family === 0 ? await unlessAborted(resolve(target.host), deadline) : [{ address: target.host, family }]
    if (found.length === 0) throw new Error('The name has no address')
    if (!found.every(({ address }) => rules.allowsAddress(target, address))) {
      throw httpError('forbidden', { message: 'No tunnel leads to a private address.' })
    }
    return await established(target.port, found, deadline)
  } catch (error) {
    if (signal.aborted) throw httpError('bad_request', { message: 'The client has gone.' })
    if (deadline.aborted) throw httpError('gateway_timeout', { cause: error })
    // What the operating system says of it tells of the network inside, so the client is not told.
    throw (error as { status?: unknown }).status === 403 ? error : httpError('bad_gateway', { message: 'The other side can not be reached.', cause: error })
  }
}

function established(
  port: number, found: Awaited<ReturnType<ResolveHost>>, signal: AbortSignal,
): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const [first] = found
    const upstream = connect({
      host: 'judged.invalid', port, allowHalfOpen: true, noDelay: true,
      lookup: (_, { all }, callback) => {
        if (all) callback(null, [...found])
        else callback(null, first?.address ?? '', first?.family)
      },
    })
    const stop = (): void => { upstream.destroy(new Error('stopped')) }
    signal.addEventListener('abort', stop, { once: true })
    // Stays for as long as the socket: an error that nobody hears would end the process.
    upstream.on('error', reject)
    upstream.once('connect', () => {
      signal.removeEventListener('abort', stop)
      resolve(upstream)
    })
    upstream.once('close', () => signal.removeEventListener('abort', stop))
    if (signal.aborted) stop()
  })
}

function unlessAborted<T>(asked: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = (): void => { reject(new Error('stopped')) }
    if (signal.aborted) stop()
    signal.addEventListener('abort', stop, { once: true })
    asked.then(resolve, reject).finally(() => signal.removeEventListener('abort', stop))
  })
}
