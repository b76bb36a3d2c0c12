import { addResponseHeaders, addResponses } from '../openapi/merge.js'
import { errorResponses } from '../openapi/errors.js'
import { header, type Fragment } from '../openapi/operation.js'
import type { ErrorCode } from '../http/errors.js'
import type { Operation } from '../http/exchange.js'
import type { Scheme } from './schemes.js'

type Describe = (operation: Operation) => Operation

/** A policy that answers with these failures. */
export function failing(...codes: readonly ErrorCode[]): Describe {
  const responses = errorResponses(...codes)
  return (operation) => addResponses(operation, responses)
}

/** A policy that adds header fields to every answer. */
export function adding(
  headers: Readonly<Record<string, Fragment>>, describe: Describe = (operation) => operation,
): Describe {
  return (operation) => addResponseHeaders(describe(operation), headers)
}

/**
 * Any one of the schemes will do. Where nobody has to be known, an operation that answers 401 by
 * itself needs them still.
 */
export function securedBy(
  schemes: readonly Pick<Scheme, 'name' | 'openapi'>[], optional: boolean,
): Describe {
  const told = schemes.filter(({ openapi }) => openapi !== undefined)
  const securitySchemes = Object.fromEntries(
    told.map(({ name, openapi }) => [name, openapi as Fragment])
  )
  const security = told.map(({ name }) => ({ [name]: [] }))
  const unauthorized = failing('unauthorized')
  return (operation) => {
    const needed = !optional || '401' in (operation.openapi['responses'] as Fragment)
    if (!needed) {
      return {
        ...operation,
        openapi: { ...operation.openapi, security: operation.openapi['security'] ?? [] },
      }
    }
    const described = unauthorized(operation)
    if (told.length === 0) return described
    return {
      ...described,
      openapi: { ...described.openapi, security },
      securitySchemes: { ...operation.securitySchemes, ...securitySchemes },
    }
  }
}

export const RATE_FIELDS: Readonly<Record<string, Fragment>> = {
  'RateLimit-Policy': header(
    'The limits that apply (RateLimit header fields for HTTP, draft of the IETF)'
  ),
  'RateLimit': header('What is left of each, and for how long'),
}
