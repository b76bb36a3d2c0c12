import type { ErrorBody, ErrorDetail } from '../wire/errors.js'
import type { Fragment, Properties } from './fragment.js'

const text: Fragment = { type: 'string' }

const integer: Fragment = { type: 'integer', minimum: 0 }

const position: Fragment = {
  type: 'object',
  description: 'Place in a bulk body that is not valid',
  properties: { item: integer, line: integer, column: integer, offset: integer },
}

/** Properties of some errors only, see docs/errors.md. Every error has one schema. */
const extras: Fragment = {
  position,
  'type': text,
  'reason': text,
  'summary': {
    type: 'object',
    description: 'Counts of a bulk request or an upload, a part of which may be done',
    properties: { total: integer, succeeded: integer, failed: integer },
  },
  'items': { type: 'array', items: { type: 'object' }, description: 'The items, as in the 200' },
  'expected-offset': integer,
  'provided-offset': integer,
}

const properties: Properties<ErrorBody> = {
  error: { type: 'string', description: 'One sentence' },
  code: { type: 'string', description: 'Stable: branch on it' },
  details: {
    type: 'array',
    items: {
      type: 'object',
      required: ['pointer', 'message'],
      properties: {
        pointer: { type: 'string', description: 'JSON pointer (RFC 6901) to what is wrong' },
        message: text,
      } satisfies Properties<ErrorDetail>,
    },
  },
  ...extras,
}

export const errorSchema: Fragment = { type: 'object', required: ['error', 'code'], properties }

/**
 * The error body as problem details (RFC 9457), for clients that name `application/problem+json`.
 */
export const problemSchema: Fragment = {
  type: 'object',
  required: ['error', 'code', 'status', 'title', 'detail'],
  properties: { ...properties, status: { type: 'integer' }, title: text, detail: text },
}

export const errorContent: Fragment = {
  'application/json': { schema: errorSchema },
  'application/problem+json': { schema: problemSchema },
}

/** The response for all errors of an operation, even for those that its own responses name. */
export const unexpectedError: Fragment = {
  description: 'Any other error. All errors have this form and may have these headers',
  content: errorContent,
}

/**
 * The response to a conditional request for content that the client has (RFC 9110 section 15.4.5).
 */
export const notModified: Fragment = {
  description: 'Not changed. The headers are those of the response 200',
}

/** Beginning of the part of a description that is about one error code. */
const CODE = /^`(\w+)`: /

/** Returns the parts of a description, one for each error code; `undefined` if it has other parts. */
function codeParts(description: string): readonly string[] | undefined {
  const parts = description.split(/ (?=`\w+`: )/)
  return parts.every((part) => CODE.test(part)) ? parts : undefined
}

/** Joins parts about error codes. They are sorted, so that equal lists of codes are equal. */
export function joinCodes(parts: readonly string[]): string {
  return [...new Set(parts)].sort().join(' ')
}

/** Joins the descriptions of two responses. Each error code is described once. */
export function joinDescriptions(one: string, other: string): string {
  const [codes, others] = [codeParts(one), codeParts(other)]
  if (codes && others) return joinCodes([...codes, ...others])
  return one.includes(other) ? one : other.includes(one) ? other : `${one} ${other}`
}

/** Returns the error code of a description that is about one code only. */
export function onlyCode(description: string): string | undefined {
  const [part = '', ...others] = codeParts(description) ?? []
  return others.length === 0 ? CODE.exec(part)?.[1] : undefined
}
