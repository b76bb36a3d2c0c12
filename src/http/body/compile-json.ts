import fastJson, { type AnySchema } from 'fast-json-stringify'
import { codeGenerationAdvice } from '../../runtime/code-generation.js'

/**
 * Makes a stringifier for values of one JSON Schema; what the schema does not name is left out.
 * Make it once, at start: it compiles code. It throws on a value that lacks a required member.
 * @throws {Error} The schema is not valid.
 * @throws {TypeError} The runtime forbids code generation, as a Worker does once its module is
 * loaded.
 */
export function compileJson<T>(schema: Readonly<Record<string, unknown>>): (value: T) => string {
  try {
    return fastJson(schema as AnySchema)
  } catch (cause) {
    const advice = codeGenerationAdvice(cause)
    throw advice === undefined ? cause : new TypeError(`compileJson: ${advice}`, { cause })
  }
}
