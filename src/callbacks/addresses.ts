import ipaddr from 'ipaddr.js'

type Address = ipaddr.IPv4 | ipaddr.IPv6

const HOST = /^(?=.{1,253}$)(?:[a-z0-9_](?:[a-z0-9_-]{0,62})\.)*[a-z_][a-z0-9_-]{0,62}$/

/**
 * Names that are never of the public internet, with all below them (RFC 6761, 6762, 7686, 8375, and
 * ICANN's `internal`).
 */
const LOCAL_NAMES = new Set(['localhost', 'local', 'internal', 'intranet', 'lan', 'home', 'corp', 'private', 'localdomain', 'arpa', 'onion', 'alt'])

/**
 * Which addresses and names may be called: what is public, and what an operator allows beside it.
 */
export class AddressRules {
  private readonly ranges: [Address, number][] = []
  private readonly hosts = new Set<string>()

  /**
   * @param allow addresses, ranges (`10.0.0.0/8`, `fd00::/8`) and host names that may be called
   * although they are private; a name may then resolve to anything
   * @throws {TypeError} for what is none of these
   */
  constructor(allow: readonly string[] = []) {
    for (const entry of allow) {
      const range = toRange(entry)
      if (range) this.ranges.push(range)
      else this.hosts.add(toHost(entry))
    }
  }

  /** Whether the operator named this host. */
  allowsHost(host: string): boolean {
    return this.hosts.has(host)
  }

  /** Whether this address, as text, may be connected to. What is no address may not. */
  allows(text: string): boolean {
    if (!ipaddr.isValid(text)) return false
    const address = ipaddr.parse(text)
    return isPublic(address) || this.ranges.some(([net, bits]) => net.kind() === address.kind() && address.match(net, bits))
  }

  /**
   * Why this host, as a URL parser gives it without brackets, may not be called whatever it
   * resolves to.
   */
  refuses(host: string): boolean {
    if (this.hosts.has(host)) return false
    if (ipaddr.isValid(host)) return !this.allows(host)
    const labels = host.split('.')
    return labels.length < 2 || LOCAL_NAMES.has(labels.at(-1) ?? '')
  }
}

/**
 * Public is what is global unicast and nothing else: an address that stands for another one
 * (mapped, compatible, NAT64, 6to4, Teredo, ISATAP) is refused, whichever that is.
 */
function isPublic(address: Address): boolean {
  if (address.range() !== 'unicast') return false
  if (address instanceof ipaddr.IPv4) return true
  // ipaddr.js calls all that it does not know unicast, so `::7f00:1` too. RFC 4291 section 2.4:
  // only 2000::/3 is handed out.
  const [first = 0, , , , fifth = 0, sixth = 0] = address.parts
  return (first & 0xe000) === 0x2000 && !((fifth & 0xfdff) === 0 && sixth === 0x5efe)
}

/**
 * Names the receiver that an address belongs to, for limits: an IPv4 address stands for itself, an
 * IPv6 address for its /64, which one machine has to itself.
 */
export function receiverOf(text: string): string {
  if (!ipaddr.isValid(text)) return text
  const address = ipaddr.process(text)
  return address instanceof ipaddr.IPv4 ? address.toString() : address.parts.slice(0, 4).join(':')
}

function toRange(entry: string): [Address, number] | undefined {
  const text = entry.trim().replace(/^\[|\]$/g, '')
  if (text.includes('/')) {
    if (!ipaddr.isValidCIDR(text)) throw new TypeError(`callbacks: ${JSON.stringify(entry)} is no range of addresses, such as 10.0.0.0/8`)
    return ipaddr.parseCIDR(text)
  }
  if (!ipaddr.IPv4.isValidFourPartDecimal(text) && !ipaddr.IPv6.isValid(text)) return undefined
  const address = ipaddr.parse(text)
  return [address, address.kind() === 'ipv4' ? 32 : 128]
}

function toHost(entry: string): string {
  const host = entry.trim().toLowerCase().replace(/\.$/, '')
  if (!HOST.test(host)) throw new TypeError(`callbacks: ${JSON.stringify(entry)} is no address, range or host name`)
  return host
}
