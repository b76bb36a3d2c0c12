import fastJson, { type AnySchema } from 'fast-json-stringify'

/**
 * Makes a stringifier for values of one JSON Schema; what the schema does not name is left out. Make it once, at
 * start: it compiles code. It throws on a value that lacks a required member.
 * @throws {Error} when the schema is not valid
 */
export function compileJson<T>(schema: Readonly<Record<string, unknown>>): (value: T) => string {
  return fastJson(schema as AnySchema)
}
