import { DerivedRequest } from './derived-request.js'
import type { HttpRequest } from './exchange.js'

/**
 * Ids by the binding's request: the error boundary stands outside of all policies, and sees that
 * one.
 */
const names = new WeakMap<object, string>()

/** Gives a request its id. */
export function nameRequest(request: HttpRequest, id: string): void {
  names.set(DerivedRequest.root(request), id)
}

/** The id of a request, where `requestId` has given one. */
export function nameOfRequest(request: HttpRequest<unknown>): string | undefined {
  return names.get(DerivedRequest.root(request))
}
