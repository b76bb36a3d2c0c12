import type { HttpRequest } from '../../http/exchange.js'
import type { Face } from './faces.js'
import type { Requester } from './requester.js'
import type { SharedFace } from './shared-face.js'
import type { StatusPath } from './status-path.js'
import type { FindCallback } from './submission.js'
import type { TaskService } from '../task-service.js'

/** The options with their defaults, as the two handlers use them. */
export interface EndpointSettings<C> {
  readonly service: TaskService
  readonly path: StatusPath
  readonly face: Face
  /** The face as bytes, for those who wait for a change. */
  readonly shared: SharedFace
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
