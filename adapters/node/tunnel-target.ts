import { isIP, isIPv6 } from 'node:net'
import { AddressRules } from '../../src/callbacks/addresses.js'

/** The target of a tunnel. */
export interface TunnelTarget {
  /** Host name or address, lower-case, without brackets. */
  readonly host: string
  readonly port: number
}

const AUTHORITY = /^(?:\[([0-9A-Fa-f:.]{2,45})\]|([A-Za-z0-9._-]{1,253})):([0-9]{1,5})$/
const publicOnly = new AddressRules()

/**
 * Reads an authority such as `example.com:443` or `[2001:db8::1]:443` (RFC 9110 section 9.3.6).
 * Returns `undefined` for other text; the port is required.
 */
export function readAuthority(text: string): TunnelTarget | undefined {
  const [, literal, name, digits = ''] = AUTHORITY.exec(text) ?? []
  const host = (literal ?? name)?.toLowerCase()
  const port = Number(digits)
  if (host === undefined || port < 1 || port > 65_535) return undefined
  if (literal !== undefined && !isIPv6(literal)) return undefined
  return { host, port }
}

/** Rules for targets: only hosts and ports that an operator lists are allowed. */
export class TunnelRules {
  readonly #allowed = new Set<string>()

  /**
   * @param allow - a list of `host:port`
   * @throws {TypeError} The list is empty, or an entry is not `host:port`.
   */
  constructor(allow: readonly string[]) {
    for (const entry of allow) {
      const target = readAuthority(entry.trim())
      if (!target) {
        const rule = 'such as example.com:443 or [2001:db8::1]:443'
        throw new TypeError(`tunnel: ${JSON.stringify(entry)} is no host and port, ${rule}`)
      }
      this.#allowed.add(keyOf(target.host, target.port))
    }
    if (this.#allowed.size === 0) {
      const advice = 'without tunnels, leave connect out'
      throw new TypeError(`tunnel: allow has to name at least one host:port; ${advice}`)
    }
  }

  allows({ host, port }: TunnelTarget): boolean {
    return this.#allowed.has(keyOf(host, port))
  }

  /**
   * Returns true if an address of a listed host is allowed. A listed address and a name that is
   * never public (`localhost`, `db`, `x.internal`) may have any address. A public name needs a
   * public address, so that its DNS cannot lead into the private network.
   */
  allowsAddress({ host, port }: TunnelTarget, address: string): boolean {
    if (isIP(host) !== 0 || isLocalName(host)) return true
    return publicOnly.allows(address) || this.#allowed.has(keyOf(address, port))
  }
}

/** Returns true for a name that is never public. */
export function isLocalName(host: string): boolean {
  return publicOnly.refuses(host)
}

function keyOf(host: string, port: number): string {
  return `${host} ${port}`
}
