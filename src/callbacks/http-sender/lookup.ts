import type { LookupFunction } from 'node:net'
import { receiverOf, type AddressRules } from '../addresses.js'
import type { ResolveHost } from './resolve.js'

/** Error of a connection whose host has a forbidden address. */
export class ForbiddenAddress extends Error {
  override readonly name = 'ForbiddenAddress'
}

/** Error of a connection whose host has an address with too many concurrent requests. */
export class BusyAddress extends Error {
  override readonly name = 'BusyAddress'
}

/** The lookup of one connection. */
export interface JudgedLookup {
  readonly lookup: LookupFunction
  /** Cancels the lookup. Resolves once it has really ended. */
  readonly end: () => Promise<void>
}

/**
 * Creates the lookup of one connection. The socket connects only to addresses that were checked
 * here. A later change of the name has no effect. One forbidden address rejects the name. Calls
 * `admit` last.
 */
export function judgedLookup(
  resolve: ResolveHost, rules: AddressRules, admit: (addresses: readonly string[]) => boolean,
): JudgedLookup {
  const stop = new AbortController()
  let ended = Promise.resolve()
  const lookup: LookupFunction = (host, options, callback) => {
    // Errors that `resolve` throws synchronously must reach the socket too.
    ended = Promise.resolve(host)
      .then((name) => resolve(name, stop.signal))
      .then((found) => {
        stop.signal.throwIfAborted()
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
  return {
    lookup,
    end: () => {
      stop.abort()
      return ended
    },
  }
}
