import { header, parameter, type Fragment } from './operation.js'

// Apart from fields.ts, so that a bundle of the 202 flow has no more than these.

/** Request header fields of the 202 flow. */
export const commonRequestFields = {
  prefer: parameter('header', 'Prefer', { description: 'Preferences (RFC 7240), such as `respond-async` or `wait=10`' }),
  idempotencyKey: parameter('header', 'Idempotency-Key', { description: 'Makes retries of this request take effect once' }),
  ifNoneMatch: parameter('header', 'If-None-Match', { description: 'Entity tags that the client has (RFC 9110 section 13.1.2)' }),
} as const satisfies Record<string, Fragment>

/** Response header fields of the 202 flow. */
export const commonResponseFields = {
  'Location': header('Path of the resource that was made (RFC 9110 section 10.2.2)'),
  'Content-Location': header('Path of the resource that this body represents (RFC 9110 section 8.7)'),
  'Preference-Applied': header('The preferences that were honoured (RFC 7240 section 3)'),
  'Retry-After': header('Seconds until it is worth asking again (RFC 9110 section 10.2.3)', { type: 'integer', minimum: 0 }),
  'ETag': header('Changes with the representation (RFC 9110 section 8.8.3)'),
  'Vary': header('The request fields that this answer depends on (RFC 9110 section 12.5.5)'),
  'Cache-Control': header('How long it may be reused, and by whom (RFC 9111 section 5.2)'),
  'Sunset': header('HTTP date when this resource is expected to go (RFC 8594)'),
  'Idempotent-Replayed': header('`true` when an earlier request with this Idempotency-Key was answered'),
} as const satisfies Record<string, Fragment>

/** Some of `commonResponseFields`, for the headers of one response. */
export function commonFields(...names: readonly (keyof typeof commonResponseFields)[]): Record<string, Fragment> {
  return Object.fromEntries(names.map((name) => [name, commonResponseFields[name]]))
}
