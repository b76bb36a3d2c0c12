import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { ErrorObject } from 'ajv'
import { fromPointer } from './pointer.js'

/** Maximum length of the JSON text of allowed values, and of a title, in a message. */
const MAX_NAMED = 120

/** Messages for the usual formats of JSON Schema. */
const FORMATS: Readonly<Record<string, string>> = {
  'date': 'must be a date, such as 2026-12-24',
  'date-time': 'must be a date and a time, such as 2026-12-24T18:00:00Z',
  'duration': 'must be a duration, such as PT90M',
  'email': 'must be an e-mail address',
  'hostname': 'must be a host name',
  'idn-email': 'must be an e-mail address',
  'ipv4': 'must be an IPv4 address',
  'ipv6': 'must be an IPv6 address',
  'time': 'must be a time, such as 18:00:00Z',
  'uri': 'must be an absolute URI',
  'uri-reference': 'must be a URI, or a path',
  'url': 'must be a URL',
  'uuid': 'must be a UUID',
}

/**
 * Converts ajv's errors to Standard Schema issues. The path leads to the member that is wrong: the
 * missing or the extra key, not the object around it. The message continues its name: `is
 * required`. It never has a regular expression, which means nothing to a client.
 *
 * @param schema - the schema of the errors
 */
export function ajvIssues(
  errors: readonly ErrorObject[], limit: number, schema: object,
): StandardSchemaV1.Issue[] {
  const issues: StandardSchemaV1.Issue[] = []
  for (const error of errors) {
    if (issues.length === limit) break
    // `propertyNames` is reported after the errors of the name itself, and knows the key. The
    // errors of the schema inside an `if` are in the list, too.
    if (error.propertyName !== undefined || error.keyword === 'if') continue
    const key = culprit(error)
    const path = fromPointer(error.instancePath)
    const message = sentence(error, schema)
    issues.push({ message, path: key === undefined ? path : [...path, key] })
  }
  return issues
}

/** Returns the key of an error that ajv reports at the object around it. */
function culprit({ params }: ErrorObject): string | undefined {
  const named = params as Record<string, unknown>
  const key = named['missingProperty'] ?? named['additionalProperty']
    ?? named['unevaluatedProperty'] ?? named['propertyName']
  return typeof key === 'string' ? key : undefined
}

function sentence(error: ErrorObject, schema: object): string {
  const params = error.params as Record<string, unknown>
  switch (error.keyword) {
    case 'required': return 'is required'
    case 'dependentRequired':
    case 'dependencies': return `is required beside ${JSON.stringify(params['property'])}`
    case 'additionalProperties':
    case 'unevaluatedProperties':
    case 'not':
    case 'false schema': return 'is not allowed'
    case 'propertyNames': return 'is not an allowed name'
    case 'type': return `must be ${[params['type']].flat().join(' or ')}`
    case 'pattern': return misfit(error, schema)
    case 'format': {
      const format = String(params['format'])
      return FORMATS[format] ?? `must have the format ${format}`
    }
    case 'const': return allowed('must be', [params['allowedValue']]) ?? 'is not the allowed value'
    case 'enum':
      return allowed('must be one of', params['allowedValues'])
        ?? 'is not one of the allowed values'
    case 'anyOf': return 'must match at least one of the allowed forms'
    case 'oneOf': return 'must match exactly one of the allowed forms'
    case 'uniqueItems':
      return `must not have equal items (${String(params['j'])} and ${String(params['i'])} are)`
    default: return (error.message ?? 'is not valid').replace(' NOT ', ' not ')
  }
}

/** Returns the message for a `pattern`, with the title or the description beside it. */
function misfit({ schemaPath }: ErrorObject, schema: object): string {
  let beside: unknown = schema
  for (const key of fromPointer(schemaPath.replace(/^#/, '')).slice(0, -1)) {
    beside = (beside as Record<string, unknown> | undefined)?.[key]
  }
  const { title, description } = (beside ?? {}) as Record<string, unknown>
  const text = title ?? description
  const isShort = typeof text === 'string' && text !== '' && text.length <= MAX_NAMED
  return isShort ? `does not match the pattern: ${text}` : 'does not match the pattern'
}

function allowed(start: string, values: unknown): string | undefined {
  if (!Array.isArray(values)) return undefined
  const text = values.map((value) => JSON.stringify(value)).join(', ')
  return text.length <= MAX_NAMED ? `${start} ${text}` : undefined
}
