import {
  request as httpRequest, type ClientRequest, type IncomingMessage, type RequestOptions,
} from 'node:http'
import { request as httpsRequest } from 'node:https'
import { isIP } from 'node:net'
import { bytes, duration, func, readOptions, value, type OptionTable } from '../runtime/options.js'
import { AddressRules, hostOf, readTarget, receiverOf } from './addresses.js'
import {
  BusyAddress, ForbiddenAddress, judgedLookup, publicResolve, systemResolve, type ResolveHost,
} from './lookup.js'
import type { CallbackReply, CallbackRequest, CallbackSender } from './options.js'

/** Options of `httpSender`. */
export interface HttpSenderOptions {
  /**
   * Private addresses, ranges (`10.0.0.0/8`) and host names that may be called. An allowed name may
   * resolve to any address, and is resolved as the operating system does. Default: none.
   */
  readonly allow?: readonly string[]
  /**
   * Maximum duration of one attempt in milliseconds, from name resolution to the end of the
   * response. Default 15 000.
   */
  readonly timeoutMs?: number
  /**
   * Maximum number of bytes of a response body that are read and discarded before the connection is
   * closed. Default 16 KiB.
   */
  readonly maxResponseBytes?: number
  /**
   * Resolves host names. Default: names in `allow` as the operating system does (hosts file, search
   * domains); other names by queries to the name servers of `dns.getServers()`, for at most 5 s.
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
 * Creates a sender for HTTP/1.1. It connects only to public addresses and checks them for each
 * connection. It follows no redirects, uses no proxy from the environment, keeps no connection open
 * and decodes no content coding.
 *
 * @example
 * const sender = httpSender({ allow: ['10.1.0.0/16'], timeoutMs: 5000 })
 *
 * @throws {TypeError} An option is unknown or out of range.
 */
export function httpSender(options: HttpSenderOptions = {}): CallbackSender {
  const read = readOptions('httpSender', options, OPTIONS)
  const { timeoutMs, maxResponseBytes, ca } = read
  const rules = new AddressRules(read.allow)
  const { resolve = (host, signal) => (
    rules.allowsHost(host) ? systemResolve(host, signal) : publicResolve(host, signal)
  ) } = read

  return {
    check: (url) => { readTarget(url, rules) },
    async send({ url, headers, body, signal, admit }: CallbackRequest): Promise<CallbackReply> {
      signal.throwIfAborted()
      const target = toTarget(url, rules)
      if (!target) return { fault: 'forbidden' }
      const host = hostOf(target)
      const named = isIP(host) === 0
      if (!named && !admit([receiverOf(host)])) return { fault: 'busy' }
      // An address in the URL was checked above.
      const judged = named ? judgedLookup(resolve, rules, admit) : undefined
      const secure = target.protocol === 'https:'
      const how: RequestOptions = {
        method: 'POST',
        hostname: host,
        port: target.port === '' ? (secure ? 443 : 80) : target.port,
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
        ...(judged && { lookup: judged.lookup }),
      }
      const outgoing = secure
        ? httpsRequest({ ...how, ...(ca === undefined ? {} : { ca: [ca].flat() }) })
        : httpRequest(how)
      const reply = await exchange(outgoing, { body, signal, timeoutMs, maxResponseBytes })
        .catch((error: unknown) => {
          void judged?.end()
          throw error
        })
      // The caller holds the places of the limits until the lookup has ended, too.
      await judged?.end()
      return reply
    },
  }
}

/** Checks the URL again, because the rules may have changed while it waited. */
function toTarget(url: string, rules: AddressRules): URL | undefined {
  try {
    return readTarget(url, rules)
  } catch {
    return undefined
  }
}

interface Limits {
  readonly body: string
  readonly signal: AbortSignal
  readonly timeoutMs: number
  readonly maxResponseBytes: number
}

/** Maximum time to wait for the rest of a response after its status. */
const LINGER_MS = 2000
/** Maximum number of interim responses (1xx) from one receiver. */
const MAX_INTERIM = 10

/**
 * Makes one exchange: sends the body, waits for the status, reads a little of the body, and
 * destroys the socket. Always settles. Rejects only with the reason of the signal.
 */
export function exchange(
  outgoing: ClientRequest,
  { body, signal, timeoutMs, maxResponseBytes }: Limits,
): Promise<CallbackReply> {
  return new Promise((resolve, reject) => {
    let reply: CallbackReply | undefined
    let settled = false
    let linger: ReturnType<typeof setTimeout> | undefined
    const settle = (outcome: CallbackReply): void => {
      if (settled) return
      settled = true
      end()
      resolve(reply ?? outcome)
    }
    const onAbort = (): void => {
      settled = true
      end()
      reject(signal.reason instanceof Error ? signal.reason : new Error('The callback was stopped'))
    }
    const deadline = setTimeout(() => {
      settle({ fault: 'timeout' })
    }, timeoutMs)
    const end = (): void => {
      clearTimeout(deadline)
      clearTimeout(linger)
      signal.removeEventListener('abort', onAbort)
      outgoing.destroy()
    }
    signal.addEventListener('abort', onAbort, { once: true })

    let interim = 0
    outgoing.on('information', () => {
      if (++interim > MAX_INTERIM) settle({ fault: 'unreachable' })
    })
    // Never removed, because an unhandled late error would end the process.
    outgoing.on('error', (error) => {
      settle(replyOf(error))
    })
    outgoing.on('close', () => {
      settle({ fault: 'unreachable' })
    })
    outgoing.on('response', (answer) => {
      const { statusCode = 0, headers } = answer
      reply = { status: statusCode, retryAfter: headers['retry-after'] }
      const done = (): void => {
        settle({ fault: 'unreachable' })
      }
      linger = setTimeout(done, LINGER_MS)
      discard(answer, maxResponseBytes, done)
    })
    outgoing.end(body)
  })
}

function replyOf(error: Error): CallbackReply {
  if (error instanceof BusyAddress) return { fault: 'busy' }
  return { fault: error instanceof ForbiddenAddress ? 'forbidden' : 'unreachable' }
}

/**
 * Discards up to `max` bytes of the body. Calls `done` at the end, at the limit, or if the response
 * breaks off.
 */
function discard(answer: IncomingMessage, max: number, done: () => void): void {
  let seen = 0
  answer.on('data', (chunk: Buffer) => {
    seen += chunk.length
    if (seen > max) done()
  })
  answer.on('end', done)
  answer.on('error', done)
  answer.on('close', done)
}
