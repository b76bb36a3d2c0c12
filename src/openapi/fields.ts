import { commonRequestFields, commonResponseFields } from './common-fields.js'
import { header, parameter, type Fragment } from './operation.js'

/** Request header fields that several operations read. */
export const requestFields = {
  ...commonRequestFields,
  ifMatch: parameter('header', 'If-Match', { description: 'Go on only if one of these entity tags is current (RFC 9110 section 13.1.1)' }),
  range: parameter('header', 'Range', { description: 'The part that is wanted (RFC 9110 section 14.2)' }),
} as const satisfies Record<string, Fragment>

/**
 * Response header fields that several operations send, by the name they have in a response object.
 */
export const responseFields = {
  ...commonResponseFields,
  'Last-Modified': header('HTTP date of the last change (RFC 9110 section 8.8.2)'),
  'Link': header('Related resources (RFC 8288)'),
  'Allow': header('The methods that are allowed (RFC 9110 section 10.2.1)'),
  'Content-Range': header('Which part this is (RFC 9110 section 14.4)'),
  'Accept-Ranges': header('The range units that are understood (RFC 9110 section 14.3)'),
  'Deprecation': header('When this became, or becomes, deprecated'),
} as const satisfies Record<string, Fragment>

/**
 * Some of `responseFields`, for the headers of one response: `fields('Location', 'Retry-After')`.
 */
export function fields(...names: readonly (keyof typeof responseFields)[]): Record<string, Fragment> {
  return Object.fromEntries(names.map((name) => [name, responseFields[name]]))
}
