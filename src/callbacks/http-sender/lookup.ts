import { lookup } from 'node:dns/promises'
import type { LookupFunction } from 'node:net'
import { receiverOf, type AddressRules } from '../addresses.js'

/** One address of a host name. */
export interface ResolvedAddress {
  readonly address: string
  readonly family: number
}

/** Resolves a host name to all its addresses. */
export type ResolveHost = (host: string) => Promise<readonly ResolvedAddress[]>

/** Resolves names as the operating system does. */
export const systemResolve: ResolveHost = (host) => lookup(host, { all: true, verbatim: true })

/** Error of a connection whose host has a forbidden address. */
export class ForbiddenAddress extends Error {
  override readonly name = 'ForbiddenAddress'
}

/** Error of a connection whose host has an address with too many concurrent requests. */
export class BusyAddress extends Error {
  override readonly name = 'BusyAddress'
}

/**
 * Returns the lookup function of one connection. The socket connects only to addresses that were
 * checked here. A later change of the name has no effect. One forbidden address rejects the name.
 * Calls `admit` last.
 */
export function judgedLookup(
  resolve: ResolveHost, rules: AddressRules, admit: (addresses: readonly string[]) => boolean,
): LookupFunction {
  return (host, options, callback) => {
    // Errors that `resolve` throws synchronously must reach the socket too.
    Promise.resolve(host)
      .then(resolve)
      .then((found) => {
        const [first] = found
        if (!first) throw new Error('The name has no address')
        if (!rules.allowsHost(host) && !found.every(({ address }) => rules.allows(address))) {
          throw new ForbiddenAddress()
        }
        if (!admit(found.map(({ address }) => receiverOf(address)))) throw new BusyAddress()
        return found
      })
      .then(
        (found) => {
          const [first] = found
          if (options.all) {
            callback(
              null,
              found.map(({ address, family }) => ({ address, family })),
            )
          }
          else callback(null, first?.address ?? '', first?.family)
        },
        (error: unknown) => {
          callback(error instanceof Error ? error : new Error('The name could not be resolved'), '')
        },
      )
  }
}
