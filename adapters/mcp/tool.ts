import { isJsonObject } from '../../src/http/body/json.js'
import { func, readOptions, text, value, type OptionTable } from '../../src/runtime/options.js'
import { toJsonSchema } from '../../src/schema/schema.js'
import type { AnyTaskDefinition, ResultOf } from '../../src/tasks/definition/define.js'
import type { JsonObject } from './protocol.js'

/** The result of a tool call, as MCP sends it. */
export interface McpToolResult {
  /** Blocks for the model, such as `{ type: 'text', text }`. */
  readonly content: readonly JsonObject[]
  /** The content as a value. */
  readonly structuredContent?: unknown
  /** `true`: the tool has failed, and the content tells the model why. */
  readonly isError?: boolean
  readonly [name: string]: unknown
}

/** Options of `mcpTool`. */
export interface McpToolOptions<T extends AnyTaskDefinition = AnyTaskDefinition> {
  /** Name of the tool. Default: that of the definition. */
  readonly name?: string
  /** Title for people. Default: none. */
  readonly title?: string
  /** Description for the model. Default: none. */
  readonly description?: string
  /** Hints for the client, such as `{ readOnlyHint: true }`. Default: none. */
  readonly annotations?: Readonly<Record<string, unknown>>
  /**
   * Returns the result of the tool call for the result of the task. Default: its JSON, and an object
   * also as `structuredContent`; a string as it is.
   */
  readonly toResult?: (result: ResultOf<T>) => McpToolResult
  /**
   * Returns the answer that stands for a question that the user has declined or closed. `undefined`
   * cancels the task. Default: the task is cancelled.
   */
  readonly declined?: (key: string, action: 'decline' | 'cancel') => unknown
}

/** A tool whose calls are tasks. Made by `mcpTool`. */
export interface McpTool {
  readonly definition: AnyTaskDefinition
  /** The entry of the tool in `tools/list`. */
  readonly listed: McpToolListing
  /** Returns the result of the call for the result of the task. */
  toResult(result: unknown): McpToolResult
  /** Returns the answer for a declined question. `undefined` cancels the task. */
  declined(key: string, action: 'decline' | 'cancel'): unknown
}

/** An entry of `tools/list`. */
export interface McpToolListing {
  readonly name: string
  readonly title?: string
  readonly description?: string
  readonly annotations?: Readonly<Record<string, unknown>>
  /** JSON Schema of the arguments. */
  readonly inputSchema: Readonly<Record<string, unknown>> & { readonly type: 'object' }
}

const OPTIONS = {
  name: text({ pattern: /^[A-Za-z0-9._-]{1,128}$/, expects: '1 to 128 of A-Z a-z 0-9 . _ -' }),
  title: text(), description: text(), annotations: value('an object', isJsonObject),
  toResult: func(), declined: func(),
} satisfies OptionTable<McpToolOptions>

/**
 * Makes a definition a tool: each call is a task of this definition. The input of the definition is an
 * object, the arguments of the tool.
 *
 * @example
 * const tool = mcpTool(report, { description: 'Writes the report of a year. Takes some minutes.' })
 *
 * @throws {TypeError} The input is no object, or an option is unknown or not valid.
 */
export function mcpTool<T extends AnyTaskDefinition>(definition: T, options: McpToolOptions<T> = {}): McpTool {
  const where = `mcpTool(${JSON.stringify(definition?.name)})`
  const { name = definition.name, toResult, declined, ...shown } = readOptions(where, options, OPTIONS)
  const schema = definition.input && toJsonSchema(definition.input)
  if (schema?.['type'] !== undefined && schema['type'] !== 'object') {
    throw new TypeError(`${where}: the input must be an object, because the arguments of a tool are one; `
      + `its type is ${JSON.stringify(schema['type'])}`)
  }
  return {
    definition,
    listed: { name, ...shown, inputSchema: { ...schema, type: 'object' } },
    toResult: toResult as McpTool['toResult'] | undefined ?? shownResult,
    declined: declined ?? (() => undefined),
  }
}

function shownResult(result: unknown): McpToolResult {
  const shown = typeof result === 'string' ? result : JSON.stringify(result)
  return { content: textOf(shown), ...isJsonObject(result) && { structuredContent: result } }
}

/** Returns the result of a call that has failed, for the model. */
export function toolError(message: string): McpToolResult {
  return { content: textOf(message), isError: true }
}

function textOf(shown: string): readonly JsonObject[] {
  return [{ type: 'text', text: shown }]
}
