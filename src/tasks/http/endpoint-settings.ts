import type { HttpRequest } from '../../http/exchange.js'
import type { TaskFormat } from './formats.js'
import type { Requester } from '../../http/requester.js'
import type { EncodedBodies } from './encoded-bodies.js'
import type { StatusPath } from './status-path.js'
import type { FindCallback, FindStart } from './submit-endpoint-options.js'
import type { TaskService } from '../core/task-service.js'

/** The options of `taskEndpoints` with their defaults. */
export interface EndpointSettings<C> {
  readonly service: TaskService
  readonly path: StatusPath
  readonly format: TaskFormat
  /** Bodies and events as bytes, shared by all requests that wait for a task. */
  readonly bodies: EncodedBodies
  /**
   * Finds the requester. Throws 401 `unauthorized` where an owner is needed and nobody is known.
   */
  readonly requester: (request: HttpRequest<C>) => Requester
  readonly context: (request: HttpRequest<C>) => unknown
  readonly callback: FindCallback<C> | undefined
  readonly startAt: FindStart<C> | undefined
  readonly remove: 'cancel' | 'forget'
  readonly maxWaitSeconds: number
  readonly syncTimeoutMs: number
  readonly maxBodyBytes: number
  /** `undefined`: the default, which depends on the blobs. */
  readonly maxBytesPerOwner: number | undefined
}

/**
 * Makes the option `context` return what JSON keeps of its value. So a direct run gets the same
 * value as the run of a stored task.
 */
export function jsonContext<C>(
  context: ((request: HttpRequest<C>) => unknown) | undefined,
): EndpointSettings<C>['context'] {
  if (context === undefined) return () => undefined
  return (request) => {
    const text = JSON.stringify(context(request)) as string | undefined
    return text === undefined ? undefined : JSON.parse(text) as unknown
  }
}
