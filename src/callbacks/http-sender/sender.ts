import { request as httpRequest, type RequestOptions } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { isIP } from 'node:net'
import { AddressRules, receiverOf } from '../addresses.js'
import type { CallbackReply, CallbackRequest, CallbackSender } from '../sender.js'
import { hostOf, readTarget } from '../target.js'
import { checkNames } from '../../runtime/option-names.js'
import { exchange } from './exchange.js'
import { judgedLookup, systemResolve, type ResolveHost } from './lookup.js'

/** What `httpSender` takes. */
export interface HttpSenderOptions {
  /**
   * What may be called although it is not public: addresses, ranges (`10.0.0.0/8`) and host names.
   * A name in the list may resolve to anything. Default: nothing.
   */
  readonly allow?: readonly string[]
  /**
   * How long one attempt may take, from the name's look-up to the answer's end, in milliseconds.
   * Default 15 000.
   */
  readonly timeoutMs?: number
  /**
   * Bytes of an answer's body that are read, and thrown away, before the connection is cut. Default
   * 16 KiB.
   */
  readonly maxAnswerBytes?: number
  /** Finds the addresses of a name. Default: the operating system. */
  readonly resolve?: ResolveHost
  /** Certificates (PEM) to trust in place of those that Node comes with. */
  readonly ca?: string | readonly string[]
}

const KNOWN = {
  allow: 0, timeoutMs: 0, maxAnswerBytes: 0, resolve: 0, ca: 0,
} satisfies Record<keyof HttpSenderOptions, 0>

/**
 * Sends callbacks over HTTP/1.1: only to http and https, only to public addresses, judged anew for
 * each connection. No redirect is followed, no proxy of the environment used, no connection kept,
 * no answer decompressed. Throws a `TypeError` when an option makes no sense.
 */
export function httpSender(options: HttpSenderOptions = {}): CallbackSender {
  checkNames('httpSender', options, KNOWN)
  const { timeoutMs = 15_000, maxAnswerBytes = 16_384, resolve = systemResolve, ca } = options
  if (!(timeoutMs >= 1 && timeoutMs <= 600_000)) throw new TypeError('httpSender: timeoutMs must be from 1 to 600000')
  if (!(maxAnswerBytes >= 0)) throw new TypeError('httpSender: maxAnswerBytes must be 0 or more')
  const rules = new AddressRules(options.allow)

  return {
    check: (url) => { readTarget(url, rules) },
    async send({ url, headers, body, signal, admit }: CallbackRequest): Promise<CallbackReply> {
      signal.throwIfAborted()
      const target = toTarget(url, rules)
      if (!target) return { fault: 'forbidden' }
      const host = hostOf(target)
      const named = isIP(host) === 0
      if (!named && !admit([receiverOf(host)])) return { fault: 'busy' }
      const secure = target.protocol === 'https:'
      const how: RequestOptions = {
        method: 'POST', hostname: host, port: target.port === '' ? (secure ? 443 : 80) : target.port, path: target.pathname + target.search,
        headers: { 'host': target.host, 'accept-encoding': 'identity', 'connection': 'close', ...headers, 'content-length': Buffer.byteLength(body) },
        // A connection of its own, which no agent, and so no proxy of the environment, has a hand
        // in.
        agent: false, maxHeaderSize: 16_384,
        // Asked for names only: an address in the URL was judged just now.
        ...(named ? { lookup: judgedLookup(resolve, rules, admit) } : {}),
      }
      const outgoing = secure ? httpsRequest({ ...how, ...(ca === undefined ? {} : { ca: [ca].flat() }) }) : httpRequest(how)
      return exchange(outgoing, { body, signal, timeoutMs, maxAnswerBytes })
    },
  }
}

/**
 * Judged once more: the URL may have waited for hours, and the rules may have changed meanwhile.
 */
function toTarget(url: string, rules: AddressRules): URL | undefined {
  try {
    return readTarget(url, rules)
  } catch {
    return undefined
  }
}
