import { isJsonObject } from '../../src/http/body/json.js'
import { readFailure } from '../../src/http/failure.js'
import { givenOwner } from '../../src/http/requester.js'
import { func, readOptions, value, whole, type OptionTable } from '../../src/runtime/options.js'
import { telling, warn } from '../../src/runtime/warning.js'
import type { TaskProgress } from '../../src/wire/task.js'
import type { TaskCore } from '../../src/tasks/core/task-core.js'
import { coreOf, type Tasks } from '../../src/tasks/tasks.js'
import { ToolCalls, type RequestingClient } from './calls.js'
import { CODES, declaresForms, McpError, missingExtension, type JsonObject } from './protocol.js'
import { registerOn, type McpServerLike, type SdkRequest } from './sdk-server.js'
import { failureText } from './shown-task.js'
import type { McpTool, McpToolListing } from './tool.js'

/** Client that the authentication in front of an MCP server has found, as the official SDK passes it. */
export interface McpAuthInfo {
  /** Id of the OAuth client. */
  readonly clientId: string
  readonly scopes: readonly string[]
  /** Additions of your token verifier, such as the subject of the user. */
  readonly extra?: Readonly<Record<string, unknown>>
}

/** Options of `mcpTasks`. */
export interface McpTasksOptions {
  /** The tools, made by `mcpTool`. Each definition is one tool. */
  readonly tools: readonly McpTool[]
  /**
   * The owner of the tasks. A function returns the owner's id, or `{ owner, tenant }`: `owner:
   * (authInfo) => authInfo?.extra?.sub`. `'anyone'`: whoever knows the id of a task (128 random
   * bits) may use it.
   *
   * A handle of another owner is an unknown task. If the function returns `undefined`, the request
   * gets an error.
   */
  readonly owner: 'anyone' | ((authInfo: McpAuthInfo | undefined) => unknown)
  /** Returns what `run` receives as `context`, as JSON. Default: none. */
  readonly context?: (authInfo: McpAuthInfo | undefined) => unknown
  /** Time between two polls that clients are asked for, in milliseconds. Default: 1 to 15 seconds by age. */
  readonly pollIntervalMs?: number
  /** Receives errors that are masked to clients. Default: a process warning named `LonghaulError`. */
  readonly onError?: (error: unknown) => unknown
}

/** One request beside its message. */
export interface McpRequest {
  readonly authInfo?: McpAuthInfo
  /** Aborts when the client no longer waits for a call. Its task is then cancelled. */
  readonly signal?: AbortSignal
  /** Receives the progress of a task while a call waits for it. */
  readonly onProgress?: (progress: TaskProgress) => unknown
}

/** A JSON-RPC response: `result`, or `error` with `code`, `message` and `data`. */
export interface JsonRpcResponse {
  readonly jsonrpc: '2.0'
  readonly id: string | number
  readonly result?: Readonly<Record<string, unknown>>
  readonly error?: Readonly<Record<string, unknown>>
}

/** The tools of an MCP server whose calls are tasks. Made by `mcpTasks`. */
export interface McpTasks {
  /** The entries of `tools/list`. */
  readonly tools: readonly McpToolListing[]
  /** The capabilities that the server declares. */
  readonly capabilities: Readonly<Record<string, unknown>>
  /**
   * Answers a JSON-RPC request, of any transport: `tools/call` of one of the tools, `tasks/get`,
   * `tasks/update` and `tasks/cancel`. `undefined` for any other message. Never rejects.
   *
   * @example
   * const mcp = mcpTasks(tasks, { tools: [mcpTool(report)], owner: 'anyone' })
   * const response = await mcp.handle({
   *   jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'report', arguments: { year: 2026 } },
   * })
   */
  handle(message: unknown, request?: McpRequest): Promise<JsonRpcResponse | undefined>
  /**
   * Registers the tools, the capability and the methods with an `McpServer` of the official SDK,
   * `@modelcontextprotocol/server` 2. Call it before the server connects.
   *
   * @example
   * import { McpServer } from '@modelcontextprotocol/server'
   *
   * const mcp = mcpTasks(tasks, { tools: [mcpTool(report)], owner: 'anyone' })
   * const server = new McpServer({ name: 'reports', version: '1.0.0' })
   * mcp.register(server)
   *
   * @throws {TypeError} It is a server of another SDK.
   */
  register(server: McpServerLike): void
}

const OPTIONS = {
  tools: value('an array of what mcpTool returns', isTools, { required: true }),
  owner: value("'anyone' or a function", (given) => given === 'anyone' || typeof given === 'function', {
    required: true,
  }),
  context: func(), pollIntervalMs: whole({ min: 1 }), onError: func({}),
} satisfies OptionTable<McpTasksOptions>

/**
 * Serves tasks as the Tasks extension of the Model Context Protocol (`io.modelcontextprotocol/tasks`,
 * revision 2026-07-28). A call of a tool is a durable task. A client that declares the extension gets its
 * handle, which any process can read. For any other client the call waits for the result.
 *
 * @example
 * const mcp = mcpTasks(tasks, { tools: [mcpTool(report)], owner: (authInfo) => authInfo?.extra?.['sub'] })
 *
 * @throws {TypeError} An option is unknown or not valid, a tool or a definition is there twice, or
 * `createTasks` does not have the definition.
 */
export function mcpTasks(tasks: Tasks, options: McpTasksOptions): McpTasks {
  const core = coreOf(tasks, 'mcpTasks')
  const settings = readOptions('mcpTasks', options, OPTIONS)
  const { tools, pollIntervalMs, onError = warn } = settings
  checkTools(core, tools)
  const byName = new Map(tools.map((tool) => [tool.listed.name, tool]))
  const calls = new ToolCalls(core, tools, pollIntervalMs)

  const clientOf = (request: McpRequest, mayAsk: boolean): RequestingClient => toClient(settings, request, mayAsk)
  const failed = (error: unknown): McpError => toMcpError(error, onError)
  const methods = methodsOf(calls)
  const methodOf = ({ method, params }: JsonObject) => {
    if (method === 'tools/call' && isJsonObject(params)) {
      const tool = byName.get(String(params['name']))
      return tool && (async (given: JsonObject, client: RequestingClient) => {
        const result = await calls.call(tool, given, client)
        if (result['resultType'] === 'input_required' && !client.mayAsk) throw missingExtension()
        return result
      })
    }
    return Object.hasOwn(methods, String(method)) ? methods[method as keyof typeof methods] : undefined
  }
  const sdkMethod = (run: (params: JsonObject, client: RequestingClient) => Promise<JsonObject>) => async (
    { params, authInfo, ...request }: SdkRequest,
  ): Promise<JsonObject> => {
    try {
      return await run(params, clientOf({ ...request, authInfo: authInfo as McpAuthInfo }, request.mayAsk))
    } catch (error) {
      throw failed(error)
    }
  }

  return {
    tools: tools.map(({ listed }) => listed),
    capabilities: { extensions: { 'io.modelcontextprotocol/tasks': {} } },
    async handle(message, request = {}) {
      if (!isJsonObject(message)) return undefined
      const { id, params } = message
      const run = typeof id === 'string' || typeof id === 'number' ? methodOf(message) : undefined
      if (run === undefined) return undefined
      const given = isJsonObject(params) ? params : {}
      try {
        const result = await run(given, clientOf(request, declaresForms(given)))
        return { jsonrpc: '2.0', id: id as string | number, result }
      } catch (error) {
        const { code, message: text, data } = failed(error)
        return { jsonrpc: '2.0', id: id as string | number, error: { code, message: text, ...data && { data } } }
      }
    },
    register(server) {
      registerOn(server, {
        tools: this.tools,
        call: (name, request) => {
          const tool = byName.get(name) as McpTool
          return sdkMethod((params, client) => calls.call(tool, params, client))(request)
        },
        methods: Object.fromEntries(Object.entries(methods).map(([name, run]) => [name, sdkMethod(run)])),
      })
    },
  }
}

function toClient(
  { owner, context }: Pick<McpTasksOptions, 'owner' | 'context'>, { authInfo, signal, onProgress }: McpRequest,
  mayAsk: boolean,
): RequestingClient {
  return {
    owner: owner === 'anyone' ? undefined : ownerOf(owner(authInfo)),
    context: context?.(authInfo), signal, onProgress, mayAsk,
  }
}

/** Returns the error that clients see. Reports any error that is not meant for them. */
function toMcpError(error: unknown, onError: (error: unknown) => void): McpError {
  if (error instanceof McpError) return error
  const failure = readFailure(error)
  if (!failure.expected) telling(() => onError(error))
  const code = failure.status < 500 ? CODES.invalidParams : CODES.internal
  return new McpError(code, failureText(failure), { code: failure.code })
}

/** Returns the owner as it is stored. Throws if there is none, or if the value is not an id. */
function ownerOf(given: unknown): string {
  const owner = givenOwner('mcpTasks: owner', given, false)
  if (owner === undefined) throw new McpError(CODES.invalidParams, 'Authentication is required')
  return owner
}

function isTools(given: unknown): boolean {
  return Array.isArray(given) && given.length > 0 && given.every((each) => isJsonObject(each) && isJsonObject(each['listed']))
}

function checkTools(core: TaskCore, tools: readonly McpTool[]): void {
  for (const { definition } of tools) core.mustHave(definition)
  checkTwice('name', tools.map(({ listed }) => listed.name))
  checkTwice('definition', tools.map(({ definition }) => definition.name))
}

function methodsOf(calls: ToolCalls) {
  return {
    'tasks/get': calls.get.bind(calls), 'tasks/update': calls.update.bind(calls),
    'tasks/cancel': calls.cancel.bind(calls),
  }
}

function checkTwice(what: string, names: readonly string[]): void {
  const twice = names.find((name, index) => names.indexOf(name) !== index)
  if (twice !== undefined) throw new TypeError(`mcpTasks: tools: the ${what} ${twice} is there twice`)
}
