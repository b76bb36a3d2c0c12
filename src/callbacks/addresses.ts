import ipaddr from 'ipaddr.js'

type Address = ipaddr.IPv4 | ipaddr.IPv6

const HOST = /^(?=.{1,253}$)(?:[a-z0-9_](?:[a-z0-9_-]{0,62})\.)*[a-z_][a-z0-9_-]{0,62}$/

/**
 * Names that are never on the public internet, with their subdomains (RFC 6761, 6762, 7686, 8375,
 * and ICANN's `internal`).
 */
const LOCAL_NAMES = new Set([
  'localhost',
  'local',
  'internal',
  'intranet',
  'lan',
  'home',
  'corp',
  'private',
  'localdomain',
  'arpa',
  'onion',
  'alt',
])

/**
 * Addresses that look public, and lead to the machines of a cloud from within it: Azure's wire
 * server, and the service networks of IBM Cloud. Those of other clouds are in reserved ranges.
 */
const CLOUD = ['168.63.129.16/32', '161.26.0.0/16', '166.8.0.0/14'].map(
  (range) => ipaddr.IPv4.parseCIDR(range),
)

/**
 * Decides which addresses and host names may be called: public ones, and those that the operator
 * allows.
 */
export class AddressRules {
  private readonly ranges: [Address, number][] = []
  private readonly hosts = new Set<string>()

  /**
   * @param allow Private addresses, ranges (`10.0.0.0/8`, `fd00::/8`) and host names that may be
   * called. An allowed name may resolve to any address.
   * @throws {TypeError} An entry is none of these.
   */
  constructor(allow: readonly string[] = []) {
    for (const entry of allow) {
      const range = toRange(entry)
      if (range) this.ranges.push(range)
      else this.hosts.add(toHost(entry))
    }
  }

  /** Returns whether the operator allowed this host name. */
  allowsHost(host: string): boolean {
    return this.hosts.has(host)
  }

  /**
   * Returns whether connections to this address are allowed. False for text that is not an address.
   */
  allows(text: string): boolean {
    if (!ipaddr.isValid(text)) return false
    const address = ipaddr.parse(text)
    return (
      isPublic(address) ||
      this.ranges.some(([net, bits]) => net.kind() === address.kind() && address.match(net, bits))
    )
  }

  /**
   * Returns whether this host must never be called, whatever it resolves to. Expects the host as a
   * URL parser returns it, without brackets.
   */
  refuses(host: string): boolean {
    if (this.hosts.has(host)) return false
    if (ipaddr.isValid(host)) return !this.allows(host)
    const labels = host.split('.')
    return labels.length < 2 || LOCAL_NAMES.has(labels.at(-1) ?? '')
  }
}

/**
 * Returns whether an address is global unicast. Rejects addresses that stand for another one:
 * mapped, compatible, NAT64, 6to4, Teredo and ISATAP.
 */
function isPublic(address: Address): boolean {
  if (address.range() !== 'unicast') return false
  if (address instanceof ipaddr.IPv4) return !CLOUD.some((range) => address.match(range))
  // ipaddr.js reports unknown IPv6 addresses, such as `::7f00:1`, as unicast. Only 2000::/3 is
  // assigned (RFC 4291 section 2.4).
  const [first = 0, , , , fifth = 0, sixth = 0] = address.parts
  return (first & 0xe000) === 0x2000 && !((fifth & 0xfdff) === 0 && sixth === 0x5efe)
}

/**
 * Returns the receiver of an address, for limits. An IPv4 address stands for itself. An IPv6
 * address stands for its /64, which usually belongs to one machine.
 */
export function receiverOf(text: string): string {
  if (!ipaddr.isValid(text)) return text
  const address = ipaddr.process(text)
  return address instanceof ipaddr.IPv4 ? address.toString() : address.parts.slice(0, 4).join(':')
}

function toRange(entry: string): [Address, number] | undefined {
  const text = entry.trim().replace(/^\[|\]$/g, '')
  if (text.includes('/')) {
    if (!ipaddr.isValidCIDR(text)) {
      throw new TypeError(
        `callbacks: ${JSON.stringify(entry)} is not a range of addresses such as 10.0.0.0/8`,
      )
    }
    return ipaddr.parseCIDR(text)
  }
  if (!ipaddr.IPv4.isValidFourPartDecimal(text) && !ipaddr.IPv6.isValid(text)) return undefined
  const address = ipaddr.parse(text)
  return [address, address.kind() === 'ipv4' ? 32 : 128]
}

function toHost(entry: string): string {
  const host = entry.trim().toLowerCase().replace(/\.$/, '')
  if (!HOST.test(host)) {
    throw new TypeError(`callbacks: ${JSON.stringify(entry)} is not an address, range or host name`)
  }
  return host
}
