import type { StandardJSONSchemaV1 } from '@standard-schema/spec'
import type { Schema } from './schema.js'

/**
 * Returns the JSON Schema 2020-12 of a schema, without `$schema`. Its library must support Standard
 * JSON Schema: `jsonSchema()`, zod 4, arktype, or valibot through `toStandardJsonSchema` of
 * @valibot/to-json-schema.
 *
 * @param side - the values that clients send (`input`, the default), or the validated ones
 * @returns `undefined` if the library cannot express this schema, for example a transform
 */
export function toJsonSchema(
  schema: Schema, side: 'input' | 'output' = 'input',
): Record<string, unknown> | undefined {
  const { jsonSchema } = schema['~standard'] as Partial<StandardJSONSchemaV1.Props>
  if (typeof jsonSchema?.[side] !== 'function') return undefined
  try {
    const { $schema: _, ...rest } = jsonSchema[side]({ target: 'draft-2020-12' })
    return rest
  } catch {
    // The contract of Standard JSON Schema: it throws if it cannot express the schema.
    return undefined
  }
}
