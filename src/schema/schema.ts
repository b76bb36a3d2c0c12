import type { StandardJSONSchemaV1, StandardSchemaV1 } from '@standard-schema/spec'

/**
 * A Standard Schema v1 (zod, valibot, arktype, …), or `jsonSchema()`. `T` is the type of the values
 * that come out, after defaults and transforms. `In` is the type of the values that go in.
 */
export type Schema<T = unknown, In = unknown> = StandardSchemaV1<In, T>

/** A schema that can return its JSON Schema (Standard JSON Schema v1), for documents. */
export interface DescribedSchema<T = unknown, In = T> {
  readonly '~standard': StandardSchemaV1.Props<In, T> & StandardJSONSchemaV1.Props<In, T>
}

/** The type of the values that come out of a schema. */
export type InferOutput<S extends Schema> = StandardSchemaV1.InferOutput<S>

/** The type of the values that a schema accepts, if its library declares it. */
export type InferInput<S extends Schema> = StandardSchemaV1.InferInput<S>

/** Returns true if `value` is a Standard Schema v1 of any library. */
export function isSchema(value: unknown): value is Schema {
  // Some libraries (arktype) make schemas that are functions.
  const isObject = (typeof value === 'object' || typeof value === 'function') && value !== null
  if (!isObject || !('~standard' in value)) return false
  const standard = value['~standard']
  if (typeof standard !== 'object' || standard === null || !('validate' in standard)) return false
  return typeof standard.validate === 'function'
}

/**
 * Asserts that `value` is a Standard Schema v1.
 *
 * @param where - the option that is checked, such as `task «export»: input`
 * @throws {TypeError} `value` is not a Standard Schema v1.
 */
export function assertSchema(value: unknown, where: string): asserts value is Schema {
  if (isSchema(value)) return
  const accepted = 'a zod, valibot or arktype schema, or jsonSchema({ … }) around a JSON Schema'
  throw new TypeError(`${where} must be a Standard Schema v1: ${accepted}`)
}
