import type { StandardJSONSchemaV1 } from '@standard-schema/spec'
import type { Schema } from './schema.js'

/**
 * The JSON Schema 2020-12 of a schema whose library tells it (Standard JSON Schema: `jsonSchema()`,
 * zod 4, arktype; valibot through `toStandardJsonSchema` of @valibot/to-json-schema), without
 * `$schema`. `undefined` where the library does not, or can not for this schema (a transform, say).
 *
 * @param side - what a client sends (`input`, the default), or what comes out of the check
 */
export function toJsonSchema(schema: Schema, side: 'input' | 'output' = 'input'): Record<string, unknown> | undefined {
  const { jsonSchema } = schema['~standard'] as Partial<StandardJSONSchemaV1.Props>
  if (typeof jsonSchema?.[side] !== 'function') return undefined
  try {
    const { $schema: _, ...rest } = jsonSchema[side]({ target: 'draft-2020-12' })
    return rest
  } catch {
    // The contract of Standard JSON Schema: it throws for what it can not express.
    return undefined
  }
}
