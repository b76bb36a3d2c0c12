import type { StandardJSONSchemaV1, StandardSchemaV1 } from '@standard-schema/spec'

/**
 * A Standard Schema v1 (zod, valibot, arktype, …), or `jsonSchema()`. `T` is the type of the values
 * that come out, after defaults and transforms. `In` is the type of the values that go in.
 */
export type Schema<T = unknown, In = unknown> = StandardSchemaV1<In, T>

/**
 * A schema that can also tell its JSON Schema (Standard JSON Schema v1), so that documents can show
 * it.
 */
export interface DescribedSchema<T = unknown, In = T> {
  readonly '~standard': StandardSchemaV1.Props<In, T> & StandardJSONSchemaV1.Props<In, T>
}

/** The type of the values that come out of a schema. */
export type InferOutput<S extends Schema> = StandardSchemaV1.InferOutput<S>

/** The type of the values that a schema takes in, where its library knows. */
export type InferInput<S extends Schema> = StandardSchemaV1.InferInput<S>

/** Whether `value` is a Standard Schema v1, whatever library made it. */
export function isSchema(value: unknown): value is Schema {
  // Some libraries (arktype) make schemas that are functions.
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null || !('~standard' in value)) return false
  const standard = value['~standard']
  return typeof standard === 'object' && standard !== null && 'validate' in standard && typeof standard.validate === 'function'
}

/**
 * Throws a TypeError unless `value` is a Standard Schema v1; for what takes a schema at
 * construction.
 *
 * @param where - what was being set, for the message: `task «export»: input`
 */
export function assertSchema(value: unknown, where: string): asserts value is Schema {
  if (isSchema(value)) return
  throw new TypeError(`${where} must be a Standard Schema v1: a zod, valibot or arktype schema, or jsonSchema({ … }) around a JSON Schema`)
}
