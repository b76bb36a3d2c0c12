import ipaddr from 'ipaddr.js'
import { httpError, type HttpError } from '../http/errors.js'

type Address = ipaddr.IPv4 | ipaddr.IPv6

const HOST = /^(?=.{1,253}$)(?:[a-z0-9_](?:[a-z0-9_-]{0,62})\.)*[a-z_][a-z0-9_-]{0,62}$/

/** Names that are never public (RFC 6761, 6762, 7686, 8375, and ICANN's `internal`). */
const LOCAL_NAMES = new Set([
  'localhost', 'local', 'internal', 'intranet', 'lan', 'home', 'corp', 'private', 'localdomain',
  'arpa', 'onion', 'alt',
])

/** A cloud's own services at public-looking addresses: Azure's wire server, IBM Cloud. */
const CLOUD = ['168.63.129.16/32', '161.26.0.0/16', '166.8.0.0/14']
  .map((range) => ipaddr.IPv4.parseCIDR(range))

export class AddressRules {
  private readonly ranges: [Address, number][] = []
  private readonly hosts = new Set<string>()
  private isAdvised = false

  constructor(allow: readonly string[] = []) {
    for (const entry of allow) {
      const range = toRange(entry)
      if (range) this.ranges.push(range)
      else this.hosts.add(toHost(entry))
    }
  }

  allowsHost(host: string): boolean {
    return this.hosts.has(host)
  }

  allows(text: string): boolean {
    if (!ipaddr.isValid(text)) return false
    const address = ipaddr.parse(text)
    return isPublic(address) || this.ranges.some(([net, bits]) => (
      net.kind() === address.kind() && address.match(net, bits)
    ))
  }

  /**
   * Returns advice for the operator, with which the error reaches `onError`. Returns the advice
   * only once, because clients can cause such errors.
   */
  adviceOnce(host: string): Error | undefined {
    if (this.isAdvised) return undefined
    this.isAdvised = true
    return new Error(`A callback URL names ${host}, which is not public. If callbacks may reach it, `
      + `pass httpSender({ allow: [${JSON.stringify(host)}] }) as the option sender of callbacks`)
  }

  /** Returns true if this host must never be called, whatever it resolves to. */
  refuses(host: string): boolean {
    if (this.hosts.has(host)) return false
    if (ipaddr.isValid(host)) return !this.allows(host)
    const labels = host.split('.')
    return labels.length < 2 || LOCAL_NAMES.has(labels.at(-1) ?? '')
  }
}

/**
 * Rejects addresses that contain another address: mapped, compatible, NAT64, 6to4, Teredo, ISATAP.
 */
function isPublic(address: Address): boolean {
  if (address.range() !== 'unicast') return false
  if (address instanceof ipaddr.IPv4) return !CLOUD.some((range) => address.match(range))
  // ipaddr.js reports unknown IPv6 addresses, such as `::7f00:1`, as unicast. Only 2000::/3 is
  // assigned (RFC 4291 section 2.4).
  const [first = 0, , , , fifth = 0, sixth = 0] = address.parts
  return (first & 0xe000) === 0x2000 && !((fifth & 0xfdff) === 0 && sixth === 0x5efe)
}

/** Names a receiver for limits. An IPv6 address stands for its /64, usually one machine. */
export function receiverOf(text: string): string {
  if (!ipaddr.isValid(text)) return text
  const address = ipaddr.process(text)
  return address instanceof ipaddr.IPv4 ? address.toString() : address.parts.slice(0, 4).join(':')
}

function toRange(entry: string): [Address, number] | undefined {
  const text = entry.trim().replace(/^\[|\]$/g, '')
  if (ipaddr.isValidCIDR(text)) return ipaddr.parseCIDR(text)
  if (text.includes('/')) {
    throw new TypeError(
      `callbacks: ${JSON.stringify(entry)} is not a range of addresses such as 10.0.0.0/8`,
    )
  }
  if (ipaddr.IPv4.isValidFourPartDecimal(text)) return [ipaddr.IPv4.parse(text), 32]
  return ipaddr.IPv6.isValid(text) ? [ipaddr.IPv6.parse(text), 128] : undefined
}

function toHost(entry: string): string {
  const host = entry.trim().toLowerCase().replace(/\.$/, '')
  if (HOST.test(host)) return host
  throw new TypeError(`callbacks: ${JSON.stringify(entry)} is not an address, range or host name`)
}

const MAX_LENGTH = 2048
const SHAPE = /^https?:\/\/[^\s\\\0-\x20\x7f]+$/i

/** Parses a callback URL. The addresses of its host are checked before each request. */
export function readTarget(text: unknown, rules: AddressRules): URL {
  if (typeof text !== 'string' || text.length > MAX_LENGTH || !URL.canParse(text)) throw invalid()
  const url = new URL(text)
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw forbidden('The callback URL must begin with http:// or https://.')
  }
  // The URL parser would repair such text, and another parser might repair it differently.
  if (!SHAPE.test(text)) throw invalid()
  const hasEmptyCredentials = /^[^/?#]*@/.test(text.slice(text.indexOf('//') + 2))
  if (url.username !== '' || url.password !== '' || hasEmptyCredentials) {
    throw forbidden('The callback URL must not have credentials.')
  }
  const host = hostOf(url)
  if (host === '' || host.endsWith('.')) throw invalid()
  if (!rules.refuses(host)) return url
  throw httpError('callback_url_forbidden', {
    message: 'The callback URL must be of a public host.', cause: rules.adviceOnce(host),
  })
}

export function hostOf(url: URL): string {
  return url.hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '')
}

function invalid(): HttpError {
  return httpError('invalid_callback_url')
}

function forbidden(message: string): HttpError {
  return httpError('callback_url_forbidden', { message })
}
