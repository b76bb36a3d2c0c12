import { connect, isIP, type Socket } from 'node:net'
import { publicResolve, systemResolve, type ResolveHost } from '../../src/callbacks/lookup.js'
import { httpError } from '../../src/http/errors.js'
import { isLocalName, type TunnelRules, type TunnelTarget } from './tunnel-target.js'

/** Options for connecting to the target of a tunnel. */
export interface ReachOptions {
  readonly rules: TunnelRules
  readonly resolve: ResolveHost | undefined
  readonly timeoutMs: number
  /** Aborts when the client disconnects. */
  readonly signal: AbortSignal
}

/**
 * Connects to an address that the rules allow. Throws `forbidden` (403), `bad_gateway` (502),
 * `gateway_timeout` (504).
 */
export async function reach(
  target: TunnelTarget, { rules, resolve = ownResolve, timeoutMs, signal }: ReachOptions,
): Promise<Socket> {
  const deadline = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)])
  try {
    const family = isIP(target.host)
    const found = family === 0
      ? await unlessAborted(resolve(target.host, deadline), deadline)
      : [{ address: target.host, family }]
    if (found.length === 0) throw new Error('The name has no address')
    if (!found.every(({ address }) => rules.allowsAddress(target, address))) {
      throw httpError('forbidden', { message: 'No tunnel leads to a private address.' })
    }
    return await established(target.port, found, deadline)
  } catch (error) {
    if (signal.aborted) throw httpError('bad_request', { message: 'The client has gone.' })
    if (deadline.aborted) throw httpError('gateway_timeout', { cause: error })
    if ((error as { status?: unknown }).status === 403) throw error
    // The client does not get the system's message, because it describes the inner network.
    throw httpError('bad_gateway', { message: 'The other side cannot be reached.', cause: error })
  }
}

/** Local names need the hosts file and the search domains. */
const ownResolve: ResolveHost = (host, signal) => (
  isLocalName(host) ? systemResolve(host, signal) : publicResolve(host, signal)
)

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
    // Kept as long as the socket, because an error without a listener would end the process.
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
