import { channel } from 'node:diagnostics_channel'

/**
 * A message of the `diagnostics_channel` `longhaul:route`: a `router` has found the route of a request, in
 * the async context of that request.
 */
export interface RouteEvent {
  readonly method: string
  /** Path below which the router is mounted, as the request has it, such as `/api`, or `''`. */
  readonly mountPath: string
  /** Path of the route, such as `/tasks/{id}`. */
  readonly template: string
}

/** Check `hasSubscribers` first, because events cost time. */
export const routeChannel = channel('longhaul:route')
