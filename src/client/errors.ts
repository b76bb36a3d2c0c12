import { isObject } from './json-object.js'
import { checkNames } from './option-names.js'

/** One problem that the server found in the input. */
export interface ErrorDetail {
  /** JSON pointer (RFC 6901) to the problem. */
  readonly pointer: string
  readonly message: string
}

/** Members of a `ClientError` beside its code and message. */
export interface ClientErrorOptions {
  /** HTTP status of the answer. */
  readonly status?: number
  /** Each problem of the request, as the server listed it. */
  readonly details?: readonly ErrorDetail[] | undefined
  /** Seconds to wait, from `Retry-After`. */
  readonly retryAfter?: number | undefined
  /** The parsed body of the answer. */
  readonly body?: unknown
  /** The underlying error. */
  readonly cause?: unknown
}

const KNOWN = {
  status: 0, details: 0, retryAfter: 0, body: 0, cause: 0,
} satisfies Record<keyof ClientErrorOptions, 0>
const CLIENT_ERROR = Symbol.for('longhaul.ClientError')

/**
 * A request that failed: the server refused it, did not answer, or sent an unusable answer. Test
 * for it with `isClientError`.
 */
export class ClientError extends Error {
  override readonly name = 'ClientError'
  readonly [CLIENT_ERROR] = true
  /** HTTP status of the answer. 0 if there was none. */
  readonly status: number
  /**
   * The stable code of the server. If it sent none, `http_404` and the like. If there was no
   * answer, a code of the client, such as `network_error`.
   */
  readonly code: string
  /** Each problem of the input, if the server listed them. */
  readonly details: readonly ErrorDetail[] | undefined
  /** Seconds to wait before a retry, from `Retry-After`. */
  readonly retryAfter: number | undefined
  /** The body of the answer: parsed if it is JSON, else its text. */
  readonly body: unknown

  constructor(code: string, message: string, options: ClientErrorOptions = {}) {
    const { status = 0, details, retryAfter, body, cause } = options
    super(message, cause === undefined ? undefined : { cause })
    checkNames('ClientError', options, KNOWN)
    this.code = code
    this.status = status
    this.details = details
    this.retryAfter = retryAfter
    this.body = body
  }
}

/**
 * Returns whether `error` is a `ClientError`, of any copy of this package.
 *
 * @example
 * try {
 *   await api.run('/reports', { year: 2025 })
 * } catch (error) {
 *   if (!isClientError(error)) throw error
 *   console.error(error.status, error.code, error.details)
 * }
 */
export function isClientError(error: unknown): error is ClientError {
  return isObject(error) && CLIENT_ERROR in error
}
