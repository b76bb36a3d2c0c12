import { compileJson } from '../http/body/compile-json.js'
import { isSchema, type Schema, toJsonSchema } from '../schema/schema.js'

export type JsonSchema = Readonly<Record<string, unknown>>

export function serialiser<T>(schema: JsonSchema | undefined): (record: T) => string | undefined {
  return schema ? compileJson(schema) : JSON.stringify
}

export function jsonSchemaOf(where: string, given: Schema | JsonSchema): JsonSchema {
  const schema = isSchema(given) ? toJsonSchema(given, 'output') : given
  if (schema !== undefined) return schema
  throw new TypeError(
    `${where}: schema cannot be converted to a JSON Schema; pass a JSON Schema object`,
  )
}
