import type { HttpRequest } from '../../http/exchange.js'
import type { TaskFormat } from './formats.js'
import type { Requester } from './requester.js'
import type { EncodedBodies } from './encoded-bodies.js'
import type { StatusPath } from './status-path.js'
import type { FindCallback } from './submit-endpoint-options.js'
import type { TaskService } from '../task-service.js'

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
  readonly maxWaitSeconds: number
  readonly syncTimeoutMs: number
  readonly maxBodyBytes: number
}
