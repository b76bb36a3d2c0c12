import type { HttpRequest } from '../../http/exchange.js'
import { parsePrefer, type Preferences } from '../../http/headers/prefer.js'
import { countedAs } from '../../http/requester.js'
import { parseIdempotencyKey } from '../../idempotency/key.js'
import type { EndpointSettings } from './settings.js'

/** A request and what its headers say. Each of them is read once for a request. */
export interface RequestHead<C> {
  readonly request: HttpRequest<C>
  /** Owner of the tasks of the request. */
  readonly owner: string | undefined
  /** Caller that limits count the request for. */
  readonly caller: string
  readonly prefer: Preferences
  /** The Idempotency-Key. */
  readonly key: string | undefined
}

/** Calls `owner` of the application. Throws 401 `unauthorized` or 400 `invalid_idempotency_key`. */
export function readHead<C>(
  { requester }: EndpointSettings<C>, request: HttpRequest<C>,
  prefer: Preferences = parsePrefer(request.headers.prefer),
): RequestHead<C> {
  const { owner } = requester(request)
  const key = parseIdempotencyKey(request.headers['idempotency-key'])
  return { request, owner, caller: countedAs(request, owner), prefer, key }
}
