import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { func, readOptions, type OptionTable } from '../../src/runtime/options.js'
import type { RouteEvent } from '../../src/resources/route-channel.js'
import { context, trace } from './api.js'

/** The part of the `RPCMetadata` of `@opentelemetry/core` that the instrumentation of node:http reads. */
interface RpcMetadata {
  route?: string | undefined
}

/** Options of `httpRoutes`. */
export interface HttpRoutesOptions {
  /**
   * `getRPCMetadata` of `@opentelemetry/core`. With it, the span of node:http gets the route.
   *
   * Its name and the metric `http.server.request.duration` get the route, too.
   * @default none: the active span alone gets `http.route`
   */
  readonly getRPCMetadata?: (active: ReturnType<typeof context.active>) => RpcMetadata | undefined
  /**
   * Returns the route of a request. Pass it if the path at which you mount a router has parameters, because
   * the mount path of a request has their values.
   * @default the mount path and the template, such as `/api/tasks/{id}`
   */
  readonly routeOf?: (event: RouteEvent) => string
}

const OPTIONS = { getRPCMetadata: func(), routeOf: func() } satisfies OptionTable<HttpRoutesOptions>

/**
 * Gives the spans and the metrics of HTTP requests the route that a `router` of longhaul has found:
 * `http.route`. Without it, a request below `app.use` has the path of the mount alone.
 * @example
 * import { getRPCMetadata } from '@opentelemetry/core'
 *
 * const stop = httpRoutes({ getRPCMetadata })
 * @returns a function that ends it
 * @throws {TypeError} An option is unknown or not valid.
 */
export function httpRoutes(options: HttpRoutesOptions = {}): () => void {
  const {
    getRPCMetadata, routeOf = ({ mountPath, template }: RouteEvent) => mountPath + template,
  } = readOptions('httpRoutes', options, OPTIONS)
  const onRoute = (message: unknown): void => {
    const route = routeOf(message as RouteEvent)
    const metadata = getRPCMetadata?.(context.active())
    if (metadata) metadata.route = route
    else trace.getActiveSpan()?.setAttribute('http.route', route)
  }
  subscribe('longhaul:route', onRoute)
  return () => { unsubscribe('longhaul:route', onRoute) }
}
