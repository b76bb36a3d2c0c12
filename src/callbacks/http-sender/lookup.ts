import { lookup } from 'node:dns/promises'
import type { LookupFunction } from 'node:net'
import { receiverOf, type AddressRules } from '../addresses.js'

/** One address that a name has. */
export interface ResolvedAddress {
  readonly address: string
  readonly family: number
}

/** Finds all addresses of a host name. */
export type ResolveHost = (host: string) => Promise<readonly ResolvedAddress[]>

/** As the operating system resolves names. */
export const systemResolve: ResolveHost = (host) => lookup(host, { all: true, verbatim: true })

/** What a connection fails with when its host has an address that must not be called. */
export class ForbiddenAddress extends Error {
  override readonly name = 'ForbiddenAddress'
}

/**
 * What a connection fails with when an address of its host has as many requests under way as it
 * may.
 */
export class BusyAddress extends Error {
  override readonly name = 'BusyAddress'
}

/**
 * The lookup of one connection: the addresses that it gives are those that were judged, and the
 * socket connects to nothing else, so a name that resolves to something else a moment later changes
 * nothing. One bad address among good ones refuses the name. `admit` is asked last.
 */
export function judgedLookup(
  resolve: ResolveHost, rules: AddressRules, admit: (addresses: readonly string[]) => boolean,
): LookupFunction {
  return (host, options, callback) => {
    // Also what `resolve` throws at once has to reach the socket.
    Promise.resolve(host).then(resolve).then((found) => {
      const [first] = found
      if (!first) throw new Error('The name has no address')
      if (!rules.allowsHost(host) && !found.every(({ address }) => rules.allows(address))) throw new ForbiddenAddress()
      if (!admit(found.map(({ address }) => receiverOf(address)))) throw new BusyAddress()
      return found
    }).then((found) => {
      const [first] = found
      if (options.all) callback(null, found.map(({ address, family }) => ({ address, family })))
      else callback(null, first?.address ?? '', first?.family)
    }, (error: unknown) => { callback(error instanceof Error ? error : new Error('The name could not be resolved'), '') })
  }
}
