import type { ErrorDetail } from '../wire/errors.js'

type ClientErrorOptions =
  ErrorOptions & Partial<Pick<ClientError, 'status' | 'details' | 'retryAfter' | 'body'>>

const CLIENT_ERROR = Symbol.for('longhaul.ClientError')

/** A request that was rejected, or got no usable response. Test for it with `isClientError`. */
export class ClientError extends Error {
  override readonly name = 'ClientError'
  readonly [CLIENT_ERROR] = true
  /** HTTP status of the response. 0 if there was none. */
  readonly status: number
  /**
   * Stable code of the server, or `http_404` and the like. Without a response, a code of the
   * client, such as `network_error`.
   */
  readonly code: string
  /** Each problem of the input, if the server listed them. */
  readonly details: readonly ErrorDetail[] | undefined
  /** Seconds to wait before a retry, from `Retry-After`. */
  readonly retryAfter: number | undefined
  /** The body of the response: parsed if it is JSON, else a string. */
  readonly body: unknown

  constructor(code: string, message: string, options: ClientErrorOptions = {}) {
    const { status = 0, details, retryAfter, body, cause } = options
    super(message, cause === undefined ? undefined : { cause })
    checkNames('ClientError', options, ['status', 'details', 'retryAfter', 'body', 'cause'])
    this.code = code
    this.status = status
    this.details = details
    this.retryAfter = retryAfter
    this.body = body
  }
}

/**
 * Returns true for a `ClientError` of any copy of this package.
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

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}

/** A `T` as it was received: each property may be absent, or of another type. */
export type Unchecked<T> = { readonly [Name in keyof T]?: unknown }

/** Returns the properties of a JSON object; none of another value. */
export function unchecked<T>(value: unknown): Unchecked<T> {
  return isObject(value) ? value : {}
}

export function checkNames<O extends object>(
  where: string, options: O, known: readonly (keyof O & string)[],
): void {
  for (const name in options) {
    if (known.includes(name)) continue
    const names = known.join(', ')
    throw new TypeError(`${where}: there is no option "${name}". The options are ${names}.`)
  }
}

export function checkWhole(
  where: string, values: Readonly<Record<string, number>>, max = Infinity,
): void {
  for (const [name, value] of Object.entries(values)) {
    const isWhole = Number.isInteger(value) || value === Infinity
    if (isWhole && value >= 1 && value <= max) continue
    const to = max < Infinity ? ` to ${max}` : ''
    throw new TypeError(`${where}: ${name} must be a whole number from 1${to}, not ${value}`)
  }
}
