import { request as httpRequest, type RequestOptions } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { isIP } from 'node:net'
import { AddressRules, receiverOf } from '../addresses.js'
import type { CallbackReply, CallbackRequest, CallbackSender } from '../sender.js'
import { hostOf, readTarget } from '../target.js'
import { checkNames } from '../../runtime/option-names.js'
import { exchange } from './exchange.js'
import { judgedLookup } from './lookup.js'
import { publicResolve, systemResolve, type ResolveHost } from './resolve.js'

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
  readonly maxAnswerBytes?: number
  /**
   * Resolves host names. Default: names in `allow` as the operating system does (hosts file, search
   * domains); other names by queries to the name servers of `dns.getServers()`, for at most 5 s.
   */
  readonly resolve?: ResolveHost
  /** Trusted certificates (PEM), in place of those of Node. */
  readonly ca?: string | readonly string[]
}

const KNOWN = {
  allow: 0, timeoutMs: 0, maxAnswerBytes: 0, resolve: 0, ca: 0,
} satisfies Record<keyof HttpSenderOptions, 0>

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
  checkNames('httpSender', options, KNOWN)
  const { timeoutMs = 15_000, maxAnswerBytes = 16_384, ca } = options
  if (!(timeoutMs >= 1 && timeoutMs <= 600_000)) {
    throw new TypeError('httpSender: timeoutMs must be from 1 to 600000')
  }
  if (!(maxAnswerBytes >= 0)) throw new TypeError('httpSender: maxAnswerBytes must be 0 or more')
  const rules = new AddressRules(options.allow)
  const { resolve = (host, signal) => (
    rules.allowsHost(host) ? systemResolve(host, signal) : publicResolve(host, signal)
  ) } = options

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
      const reply = await exchange(outgoing, { body, signal, timeoutMs, maxAnswerBytes })
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
