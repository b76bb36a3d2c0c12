import ipaddr from 'ipaddr.js'
import { Memo } from '../runtime/collections.js'
import { readOptions, value, whole, type OptionTable } from '../runtime/options.js'
import type { HttpRequest } from './exchange.js'
import { headerText } from './headers/reader.js'

type Range = [ipaddr.IPv4 | ipaddr.IPv6, number]

/** Options of `clientAddress`. */
export interface ClientAddressOptions {
  /**
   * Addresses and CIDR ranges of your own proxies, such as `['127.0.0.1', '10.0.0.0/8']`. Default:
   * none, so `X-Forwarded-For` is not read.
   *
   * `X-Forwarded-For` is read from right to left, up to the first other address.
   */
  readonly trustedProxies?: readonly string[]
  /** Length of the IPv6 prefix that identifies a client, in bits. Default: 64. */
  readonly ipv6Prefix?: number
}

const OPTIONS = {
  trustedProxies: value<never>('an array of addresses and ranges', Array.isArray),
  ipv6Prefix: whole({ min: 1, max: 128, default: 64 }),
} satisfies OptionTable<ClientAddressOptions>
const HOPS = 16

/**
 * Returns a function that finds the network of a request's client: an IPv4 address, or an IPv6
 * prefix such as `2001:db8::/64`. An IPv4-mapped address counts as IPv4. `undefined`: unknown.
 */
export function clientAddress(
  options: ClientAddressOptions = {},
): (request: HttpRequest) => string | undefined {
  const { trustedProxies = [], ipv6Prefix } = readOptions('clientAddress', options, OPTIONS)
  const trusted = trustedProxies.map(toRange)
  const isTrusted = (address: ipaddr.IPv4 | ipaddr.IPv6): boolean =>
    trusted.some(([range, bits]) => range.kind() === address.kind() && address.match(range, bits))
  const networks = new Memo((text: string) => ({ network: toNetwork(text, ipv6Prefix) }))
  return (request) => {
    const { peerAddress } = request
    if (peerAddress === undefined) return undefined
    const forwarded = trusted.length === 0 ? undefined : request.headers['x-forwarded-for']
    return networks.get(
      forwarded === undefined
        ? peerAddress
        : behindProxies(peerAddress, headerText(forwarded), isTrusted),
    ).network
  }
}

/** Returns the last address that a trusted proxy reported. */
function behindProxies(
  peer: string, forwarded: string, isTrusted: (address: ipaddr.IPv4 | ipaddr.IPv6) => boolean,
): string {
  let known = peer
  let rest = forwarded
  for (let hop = 0; hop < HOPS; hop++) {
    const address = parse(known)
    if (address === undefined || !isTrusted(address) || rest === '') return known
    const comma = rest.lastIndexOf(',')
    const next = withoutPort(rest.slice(comma + 1).trim())
    rest = comma === -1 ? '' : rest.slice(0, comma)
    if (parse(next) === undefined) return known
    known = next
  }
  return known
}

function withoutPort(text: string): string {
  if (text.startsWith('[')) return text.slice(1, Math.max(text.indexOf(']'), 1))
  const colon = text.indexOf(':')
  return colon !== -1 && colon === text.lastIndexOf(':') ? text.slice(0, colon) : text
}

function parse(text: string): ipaddr.IPv4 | ipaddr.IPv6 | undefined {
  if (text.length > 64
    || !(ipaddr.IPv4.isValidFourPartDecimal(text) || ipaddr.IPv6.isValid(text))) {
    return undefined
  }
  return ipaddr.process(text)
}

function toNetwork(text: string, bits: number): string {
  const address = parse(text)
  if (address === undefined) return text
  if (address.kind() === 'ipv4') return address.toString()
  const bytes = address.toByteArray()
    .map((byte, at) => byte & (0xff00 >> Math.min(8, Math.max(0, bits - at * 8))))
  return `${new ipaddr.IPv6(bytes).toString()}/${bits}`
}

function toRange(text: string): Range {
  try {
    if (text.includes('/')) return ipaddr.parseCIDR(text)
    const address = ipaddr.process(text)
    return [address, address.kind() === 'ipv4' ? 32 : 128]
  } catch {
    throw new TypeError(
      `trustedProxies: ${JSON.stringify(
        text,
      )} is neither an address nor a range such as 10.0.0.0/8`,
    )
  }
}
