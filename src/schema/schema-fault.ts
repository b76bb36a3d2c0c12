import { escapeToken } from './pointer.js'

/** Returns the fault of one part of a schema, `undefined` if it has none. `at` is its path. */
type Rule = (part: unknown, at: string) => string | undefined

const TYPES = ['array', 'boolean', 'integer', 'null', 'number', 'object', 'string']

const text: Rule = (part, at) => typeof part === 'string' ? undefined : `${at} must be a string`
const flag: Rule = (part, at) => typeof part === 'boolean' ? undefined : `${at} must be a boolean`
const number: Rule = (part, at) => typeof part === 'number' ? undefined : `${at} must be a number`
const positive: Rule = (part, at) =>
  typeof part === 'number' && part > 0 ? undefined : `${at} must be a number above 0`
const count: Rule = (part, at) =>
  Number.isInteger(part) && (part as number) >= 0 ? undefined : `${at} must be an integer from 0 up`
const list: Rule = (part, at) => Array.isArray(part) ? undefined : `${at} must be an array`
const names = listOf(text, { unique: true })
const schemas = listOf(schemaFault, { nonEmpty: true })
const schemasByName = mapOf(schemaFault)

/**
 * The keywords of JSON Schema 2020-12, and the deprecated ones that its meta-schema names, with the
 * rule for their values. `const` and `default` may have any value.
 */
const KEYWORDS: Readonly<Record<string, Rule>> = {
  // Core
  $id: matching(/^[^#]*#?$/, 'a URI without a fragment'),
  $schema: text,
  $anchor: matching(/^[A-Za-z_][-A-Za-z0-9._]*$/, 'a plain name'),
  $ref: text,
  $dynamicRef: text,
  $dynamicAnchor: matching(/^[A-Za-z_][-A-Za-z0-9._]*$/, 'a plain name'),
  $vocabulary: mapOf(flag),
  $comment: text,
  $defs: schemasByName,
  // Applicators
  prefixItems: schemas,
  items: schemaFault,
  contains: schemaFault,
  additionalProperties: schemaFault,
  properties: schemasByName,
  patternProperties: schemasByName,
  dependentSchemas: schemasByName,
  propertyNames: schemaFault,
  if: schemaFault,
  then: schemaFault,
  else: schemaFault,
  allOf: schemas,
  anyOf: schemas,
  oneOf: schemas,
  not: schemaFault,
  unevaluatedItems: schemaFault,
  unevaluatedProperties: schemaFault,
  // Validation
  type: typeFault,
  enum: list,
  multipleOf: positive,
  maximum: number,
  exclusiveMaximum: number,
  minimum: number,
  exclusiveMinimum: number,
  maxLength: count,
  minLength: count,
  pattern: text,
  maxItems: count,
  minItems: count,
  uniqueItems: flag,
  maxContains: count,
  minContains: count,
  maxProperties: count,
  minProperties: count,
  required: names,
  dependentRequired: mapOf(names),
  // Annotations
  title: text,
  description: text,
  deprecated: flag,
  readOnly: flag,
  writeOnly: flag,
  examples: list,
  format: text,
  contentEncoding: text,
  contentMediaType: text,
  contentSchema: schemaFault,
  // Deprecated
  definitions: schemasByName,
  dependencies: mapOf((part, at) => Array.isArray(part) ? names(part, at) : schemaFault(part, at)),
  $recursiveAnchor: matching(/^[A-Za-z_][-A-Za-z0-9._]*$/, 'a plain name'),
  $recursiveRef: text,
}

/**
 * Checks a schema against the meta-schema of JSON Schema 2020-12. ajv would need 50 ms to compile
 * that. Keywords that the meta-schema does not name may have any value.
 *
 * @returns the first fault, such as `schema/minLength must be an integer from 0 up`; `undefined`
 * if the schema is valid
 */
export function schemaFault(schema: unknown, at = 'schema'): string | undefined {
  if (typeof schema === 'boolean') return undefined
  if (!isObject(schema)) return `${at} must be a schema: an object or a boolean`
  return firstFault(schema, at, (part, path, keyword) => {
    return Object.hasOwn(KEYWORDS, keyword) ? KEYWORDS[keyword]?.(part, path) : undefined
  })
}

function typeFault(part: unknown, at: string): string | undefined {
  const types = Array.isArray(part) ? part as unknown[] : [part]
  const known = types.length > 0 && types.every((type) => TYPES.includes(type as string))
  if (known && new Set(types).size === types.length) return undefined
  return `${at} must be one or several of ${TYPES.join(', ')}`
}

function matching(pattern: RegExp, description: string): Rule {
  return (part, at) => {
    if (typeof part === 'string' && pattern.test(part)) return undefined
    return `${at} must be ${description}`
  }
}

function listOf(rule: Rule, { unique, nonEmpty }: { unique?: boolean, nonEmpty?: boolean }): Rule {
  return (part, at) => {
    if (!Array.isArray(part)) return `${at} must be an array`
    if (nonEmpty && part.length === 0) return `${at} must not be empty`
    if (unique && new Set(part).size < part.length) return `${at} must not have equal items`
    return firstFault(part, at, rule)
  }
}

function mapOf(rule: Rule): Rule {
  return (part, at) => isObject(part) ? firstFault(part, at, rule) : `${at} must be an object`
}

/** Checks the members or items of `parts` in turn and returns the first fault. */
function firstFault(
  parts: object, at: string, rule: (part: unknown, at: string, key: string) => string | undefined,
): string | undefined {
  for (const [key, part] of Object.entries(parts)) {
    const fault = rule(part, `${at}/${escapeToken(key)}`, key)
    if (fault !== undefined) return fault
  }
  return undefined
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
