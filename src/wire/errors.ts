/**
 * One problem of a request. `pointer` is a JSON Pointer (RFC 6901) to it; `''` is the whole body.
 */
export interface ErrorDetail {
  readonly pointer: string
  readonly message: string
}

/** The body of an error response. Problem+json (RFC 9457) has more properties. */
export interface ErrorBody {
  /** One sentence for people. */
  readonly error: string
  /** A stable code. */
  readonly code: string
  readonly details?: readonly ErrorDetail[] | undefined
}
