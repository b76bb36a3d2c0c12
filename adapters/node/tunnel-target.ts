import { isIP, isIPv6 } from 'node:net'
import { AddressRules } from '../../src/callbacks/addresses.js'

/** Where a tunnel leads. */
export interface TunnelTarget {
  /** Lower-case, without brackets. */
  readonly host: string
  readonly port: number
}

const publicOnly = new AddressRules()

/**
 * Reads an authority such as `example.com:443` or `[2001:db8::1]:443` (RFC 9110 section 9.3.6).
 * `undefined` for what is none: the port is needed.
 */
export function readAuthority(text: string): TunnelTarget | undefined {
  const [, literal, name, digits = ''] = /^(?:\[([0-9A-Fa-f:.]{2,45})\]|([A-Za-z0-9._-]{1,253})):([0-9]{1,5})$/.exec(text) ?? []
  const host = (literal ?? name)?.toLowerCase()
  const port = Number(digits)
  if (host === undefined || port < 1 || port > 65_535 || (literal !== undefined && !isIPv6(literal))) return undefined
  return { host, port }
}

/** Which tunnels may be opened: to the hosts and ports that an operator lists, and nowhere else. */
export class TunnelRules {
  readonly #allowed = new Set<string>()

  /**
   * @param allow `host:port` each
   * @throws {TypeError} for what is none, and when there are none
   */
  constructor(allow: readonly string[]) {
    for (const entry of allow) {
      const target = readAuthority(entry.trim())
      if (!target) throw new TypeError(`tunnel: ${JSON.stringify(entry)} is no host and port, such as example.com:443 or [2001:db8::1]:443`)
      this.#allowed.add(keyOf(target.host, target.port))
    }
    if (this.#allowed.size === 0) throw new TypeError('tunnel: allow has to name at least one host:port; without tunnels, leave connect out')
  }

  allows({ host, port }: TunnelTarget): boolean {
    return this.#allowed.has(keyOf(host, port))
  }

  /**
   * Whether this address of a listed host may be connected to: any for an address that is listed
   * itself, and for names that are never public (`localhost`, `db`, `x.internal`); of a public name
   * only public ones, so that whoever runs its DNS can't lead inside.
   */
  allowsAddress({ host, port }: TunnelTarget, address: string): boolean {
    if (isIP(host) !== 0 || publicOnly.refuses(host)) return true
    return publicOnly.allows(address) || this.#allowed.has(keyOf(address, port))
  }
}

function keyOf(host: string, port: number): string {
  return `${host} ${port}`
}
