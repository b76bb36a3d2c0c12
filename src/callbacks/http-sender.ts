import dns from 'node:dns'
import { lookup, Resolver } from 'node:dns/promises'
import { request as httpRequest, type ClientRequest } from 'node:http'
import { request as httpsRequest, type RequestOptions } from 'node:https'
import { isIP, type LookupFunction } from 'node:net'
import { bytes, duration, func, readOptions, value, type OptionTable } from '../runtime/options.js'
import { setGlobalTimeout, unlessAborted } from '../runtime/timers.js'
import { AddressRules, hostOf, readTarget, receiverOf } from './addresses.js'
import type { CallbackReply, CallbackRequest, CallbackSender } from './options.js'

export interface ResolvedAddress {
  readonly address: string
  readonly family: number
}

/**
 * Resolves a host name to all its addresses. `signal` aborts when nobody needs them any more. The
 * request keeps its place in all limits until the promise settles.
 */
export type ResolveHost = (host: string, signal: AbortSignal) => Promise<readonly ResolvedAddress[]>

/** Options of `httpSender`. */
export interface HttpSenderOptions {
  /**
   * Private addresses, ranges (`10.0.0.0/8`) and host names that may be called. Default: none.
   *
   * An allowed name is resolved by the operating system, to any address.
   */
  readonly allow?: readonly string[]
  /** Maximum duration of an attempt, name resolution included, in milliseconds. Default 15 000. */
  readonly timeoutMs?: number
  /** Maximum bytes of a response body that are read and discarded. Default 16 KiB. */
  readonly maxResponseBytes?: number
  /**
   * Resolves host names. Default: names in `allow` by the operating system; other names by queries
   * to the name servers of `dns.getServers()`, for at most 5 s.
   */
  readonly resolve?: ResolveHost
  /** Trusted certificates (PEM), in place of those of Node. */
  readonly ca?: string | readonly string[]
}

const isStrings = (given: unknown): boolean => (
  Array.isArray(given) && given.every((each) => typeof each === 'string')
)

const OPTIONS = {
  allow: value('an array of addresses, ranges and host names', isStrings),
  timeoutMs: duration({ min: 1, max: 600_000, default: 15_000 }),
  maxResponseBytes: bytes({ default: 16_384 }),
  resolve: func(),
  ca: value('a PEM certificate, or an array of some', (given) => isStrings([given].flat())),
} satisfies OptionTable<HttpSenderOptions>

/**
 * Creates a sender for HTTP/1.1. It connects only to public addresses, and checks them for each
 * connection. It follows no redirects, uses no proxy and decodes no content coding.
 * @example
 * const sender = httpSender({ allow: ['10.1.0.0/16'], timeoutMs: 5000 })
 * @throws {TypeError} An option is unknown or out of range.
 */
export function httpSender(options: HttpSenderOptions = {}): CallbackSender {
  const read = readOptions('httpSender', options, OPTIONS)
  const { timeoutMs } = read
  const rules = new AddressRules(read.allow)
  const { resolve = (host, signal) => (
    rules.allowsHost(host) ? systemResolve(host, signal) : publicResolve(host, signal)
  ) } = read

  return {
    check: (url) => { readTarget(url, rules) },
    async send(request) {
      const { url, signal } = request
      signal.throwIfAborted()
      let target: URL
      try {
        // Again, because the rules may have changed while it waited.
        target = readTarget(url, rules)
      } catch {
        return { fault: 'forbidden' }
      }
      const stop = new AbortController()
      const deadline = setGlobalTimeout(() => { stop.abort() }, timeoutMs)
      try {
        // Does not wait for a resolver that ignores its signal.
        const reply = await unlessAborted(attempt({ ...read, rules, resolve }, target, request, stop.signal), signal)
        return stop.signal.aborted && 'fault' in reply ? { fault: 'timeout' } : reply
      } finally {
        clearTimeout(deadline)
        stop.abort()
      }
    },
  }
}

interface Sender {
  readonly rules: AddressRules
  readonly resolve: ResolveHost
  readonly maxResponseBytes: number
  readonly ca?: string | readonly string[] | undefined
}

/** Makes one attempt. Rejects if `stop` aborts. */
async function attempt(
  { rules, resolve, maxResponseBytes, ca }: Sender, target: URL,
  { headers, body, admit }: CallbackRequest, stop: AbortSignal,
): Promise<CallbackReply> {
  const host = hostOf(target)
  const found = await addressesOf(host, resolve, stop)
  if (found.length === 0) return { fault: 'unreachable' }
  // One forbidden address rejects the name.
  if (!rules.allowsHost(host) && !found.every(({ address }) => rules.allows(address))) {
    return { fault: 'forbidden' }
  }
  if (!admit(found.map(({ address }) => receiverOf(address)))) return { fault: 'busy' }
  const how: RequestOptions = {
    method: 'POST',
    hostname: host,
    port: target.port,
    path: target.pathname + target.search,
    headers: {
      'host': target.host,
      'accept-encoding': 'identity',
      'connection': 'close',
      ...headers,
      'content-length': Buffer.byteLength(body),
    },
    // A separate connection without an agent, so that no proxy of the environment applies.
    agent: false,
    maxHeaderSize: 16_384,
    signal: stop,
    lookup: lookupOf(found),
    ...ca !== undefined && { ca: [ca].flat() },
  }
  const outgoing = target.protocol === 'https:' ? httpsRequest(how) : httpRequest(how)
  return exchange(outgoing, body, maxResponseBytes)
}

const DEADLINE_MS = 5000
/** Time until the first query is repeated, and the number of tries at each name server. */
const QUERY = { timeout: 1000, tries: 3 }

/** Occupies one of the few threads that all of the process shares, and cannot be cancelled. */
const systemResolve: ResolveHost = (host) => lookup(host, { all: true, verbatim: true })

/** Queries the name servers of `dns.setServers`. Occupies no thread, and ends after 5 s. */
export const publicResolve: ResolveHost = async (host, signal) => {
  signal.throwIfAborted()
  // `cancel` ends all queries of a resolver, so each name has its own.
  const resolver = new Resolver(QUERY)
  try {
    // Not by a named import: `dns.setServers` replaces the functions of the module.
    resolver.setServers(dns.getServers())
  } catch {
    // An address with a zone cannot be set. The resolver has read the same configuration.
  }
  const cancel = (): void => { resolver.cancel() }
  const deadline = setGlobalTimeout(cancel, DEADLINE_MS)
  signal.addEventListener('abort', cancel, { once: true })
  try {
    const [four, six] = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)])
    if (four.status === 'rejected' && six.status === 'rejected') throw four.reason as Error
    return [four, six].flatMap((found) => found.status === 'fulfilled' ? found.value : [])
      .map((address) => ({ address, family: isIP(address) }))
  } finally {
    clearTimeout(deadline)
    signal.removeEventListener('abort', cancel)
  }
}

async function addressesOf(
  host: string, resolve: ResolveHost, stop: AbortSignal,
): Promise<readonly ResolvedAddress[]> {
  const family = isIP(host)
  if (family !== 0) return [{ address: host, family }]
  try {
    const found = await resolve(host, stop)
    return stop.aborted ? [] : found
  } catch {
    return []
  }
}

/** Returns a lookup for a socket that connects only to addresses that were checked. */
function lookupOf(found: readonly ResolvedAddress[]): LookupFunction {
  const [first] = found
  return (_host, { all }, callback) => {
    if (all) callback(null, [...found])
    else callback(null, first?.address ?? '', first?.family)
  }
}

const LINGER_MS = 2000
const MAX_INTERIM = 10

/** Waits for the status, reads a little of the body, and destroys the socket. Never rejects. */
function exchange(
  outgoing: ClientRequest, body: string, maxResponseBytes: number,
): Promise<CallbackReply> {
  return new Promise((resolve) => {
    let reply: CallbackReply = { fault: 'unreachable' }
    let linger: NodeJS.Timeout | undefined
    const end = (): void => {
      clearTimeout(linger)
      outgoing.destroy()
      resolve(reply)
    }
    let interim = 0
    outgoing.on('information', () => {
      if (++interim > MAX_INTERIM) end()
    })
    // Never removed, because an unhandled late error would end the process.
    outgoing.on('error', end)
    outgoing.on('close', end)
    outgoing.on('response', (response) => {
      reply = { status: response.statusCode ?? 0, retryAfter: response.headers['retry-after'] }
      linger = setGlobalTimeout(end, LINGER_MS)
      let seen = 0
      response.on('data', (chunk: Buffer) => {
        seen += chunk.length
        if (seen > maxResponseBytes) end()
      })
      for (const event of ['end', 'error', 'close']) response.on(event, end)
    })
    outgoing.end(body)
  })
}
