import { clientAddress } from '../../http/client-address.js'
import type { HttpRequest } from '../../http/exchange.js'
import type { Requester } from '../../http/requester.js'
import { countedAsOwner, countedWithoutOwner } from '../record/owner.js'

const addressOf = clientAddress()

/**
 * Names the party that limits for each owner are counted for: the owner, or the network of a client
 * without an owner. Behind a proxy, all clients without an owner count as one.
 */
export function countedAs({ owner }: Requester, request: HttpRequest<unknown>): string {
  return owner === undefined ? countedWithoutOwner(addressOf(request)) : countedAsOwner(owner)
}
