import { clientAddress } from './client-address.js'
import type { HttpRequest } from './exchange.js'
import { principalOf } from './principal.js'

const addressOf = clientAddress()

/**
 * Names the caller that limits count a request for: its owner, else the subject of its principal,
 * else the network of the client. Credentials do not count, because anybody can make them up. Behind
 * a proxy, all anonymous clients count as one.
 *
 * @param owner - as an `owner` or `caller` option found it
 */
export function countedAs(request: HttpRequest<unknown>, owner?: string): string {
  const known = owner ?? principalOf(request)?.subject
  return known === undefined ? countedWithoutOwner(addressOf(request)) : countedAsOwner(known)
}

/** Returns the name of an owner for limits. No name of an anonymous client equals it. */
export function countedAsOwner(owner: string): string {
  return `owner ${owner}`
}

/** Returns the name of an anonymous client for limits. */
export function countedWithoutOwner(address: string | undefined): string {
  return `address ${address ?? 'unknown'}`
}
