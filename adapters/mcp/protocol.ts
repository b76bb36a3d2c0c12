import { isJsonObject } from '../../src/http/body/json.js'

/** Identifier of the Tasks extension of the Model Context Protocol (SEP-2663). */
export const TASKS_EXTENSION = 'io.modelcontextprotocol/tasks'
const CLIENT_CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities'

/** Codes of JSON-RPC 2.0, and the one that revision 2026-07-28 has added. */
export const CODES = { invalidParams: -32_602, internal: -32_603, missingCapability: -32_021 } as const

/** An object whose properties are not known. */
export type JsonObject = Readonly<Record<string, unknown>>

/**
 * A JSON-RPC error. The official SDK sends `code`, `message` and `data` of an error that a handler
 * throws.
 */
export class McpError extends Error {
  override readonly name = 'McpError'

  constructor(readonly code: number, message: string, readonly data?: JsonObject) {
    super(message)
  }
}

export function invalidParams(message: string): McpError {
  return new McpError(CODES.invalidParams, message)
}

/**
 * Creates the same error for a task that is unknown, expired, another owner's, or not of a tool.
 */
export function unknownTask(): McpError {
  return invalidParams('Task not found')
}

export function missingExtension(): McpError {
  return new McpError(CODES.missingCapability, 'Missing required client capability', {
    requiredCapabilities: { extensions: { [TASKS_EXTENSION]: {} } },
  })
}

/** Returns a property that is an object; `undefined` if it is none. */
export function inner(given: unknown, name: string): JsonObject | undefined {
  const found = isJsonObject(given) && Object.hasOwn(given, name) ? given[name] : undefined
  return isJsonObject(found) ? found : undefined
}

/** Returns whether this request declares the extension. An earlier request does not count. */
export function declaresTasks(params: JsonObject): boolean {
  return inner(inner(capabilitiesOf(params), 'extensions'), TASKS_EXTENSION) !== undefined
}

/** Returns whether this request declares that its client shows forms, which is the default mode. */
export function declaresForms(params: JsonObject): boolean {
  const elicitation = inner(capabilitiesOf(params), 'elicitation')
  return elicitation !== undefined && (!('url' in elicitation) || 'form' in elicitation)
}

function capabilitiesOf(params: JsonObject): JsonObject | undefined {
  return inner(inner(params, '_meta'), CLIENT_CAPABILITIES)
}
