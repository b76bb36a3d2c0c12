import type { AnySchema } from 'fast-json-stringify'
import { codeGenerationAdvice } from '../../runtime/warning.js'
import { loadFastJson } from './fast-json.js'

/**
 * Compiles a function that writes values of one JSON Schema as JSON, once, at start. It leaves out
 * properties that the schema does not name, and throws if a required one is missing.
 * @example
 * const toText = compileJson<{ name: string }>({
 *   type: 'object', properties: { name: { type: 'string' } },
 * })
 * toText({ name: 'Ada' }) // '{"name":"Ada"}'
 * @throws {Error} The schema is not valid.
 * @throws {TypeError} The runtime forbids code generation, which a Worker allows at load only.
 */
export function compileJson<T>(schema: Readonly<Record<string, unknown>>): (value: T) => string {
  const fastJson = loadFastJson()
  try {
    return fastJson(schema as AnySchema)
  } catch (cause) {
    const advice = codeGenerationAdvice(cause)
    throw advice === undefined ? cause : new TypeError(`compileJson: ${advice}`, { cause })
  }
}
