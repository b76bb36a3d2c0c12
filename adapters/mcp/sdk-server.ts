import { isJsonObject } from '../../src/http/body/json.js'
import type { McpToolListing } from './tool.js'
import { declaresForms, TASKS_EXTENSION, type JsonObject } from './protocol.js'
import type { TaskProgress } from '../../src/wire/task.js'

/** The methods of an `McpServer` of `@modelcontextprotocol/server` 2 that `register` calls. */
export interface McpServerLike {
  /** Adds a tool. */
  registerTool(name: string, config: never, call: never): unknown
  /** The server below, for other methods. */
  readonly server: {
    /** Adds capabilities that the server declares. */
    registerCapabilities(capabilities: never): void
    /** Adds a method with a schema of its params. */
    setRequestHandler(method: never, schemas: never, handler: never): void
  }
}

/** The part of the second argument of a handler of the SDK that is read here. */
interface SdkContext {
  readonly mcpReq: {
    readonly signal: AbortSignal
    /** Absent for protocols before 2026-07-28. */
    readonly envelope?: JsonObject
    readonly inputResponses?: JsonObject
    readonly requestState: () => unknown
    readonly _meta?: { readonly progressToken?: string | number }
    readonly notify: (notification: JsonObject) => Promise<void>
  }
  readonly http?: { readonly authInfo?: unknown }
}

/** One request, as the functions of this folder take it. */
export interface SdkRequest {
  readonly params: JsonObject
  readonly authInfo: unknown
  readonly signal: AbortSignal
  readonly mayAsk: boolean
  readonly onProgress?: (progress: TaskProgress) => unknown
}

interface Methods {
  readonly tools: readonly McpToolListing[]
  readonly call: (tool: string, request: SdkRequest) => Promise<JsonObject>
  readonly methods: Readonly<Record<string, (request: SdkRequest) => Promise<JsonObject>>>
}

/** Registers the tools and the methods of the extension. Calls public methods of the SDK only. */
export function registerOn(server: McpServerLike, { tools, call, methods }: Methods): void {
  try {
    for (const [method, run] of Object.entries(methods)) {
      const handler = (params: unknown, context: SdkContext) => run(sdkRequest(params, context))
      server.server.setRequestHandler(method as never, { params: passing({ type: 'object' }) } as never, handler as never)
    }
  } catch (cause) {
    throw new TypeError('mcp.register: pass an McpServer of @modelcontextprotocol/server 2; '
      + 'for another SDK, call mcp.handle with each message', { cause })
  }
  server.server.registerCapabilities({ extensions: { [TASKS_EXTENSION]: {} } } as never)
  for (const { name, inputSchema, ...config } of tools) {
    const handler = (args: unknown, context: SdkContext) => call(name, sdkRequest({ arguments: args }, context))
    server.registerTool(name, { ...config, inputSchema: passing(inputSchema) } as never, handler as never)
  }
}

/** A Standard Schema that describes its values and leaves their check to the task. */
function passing(schema: JsonObject): JsonObject {
  const described = () => schema
  return {
    '~standard': {
      version: 1, vendor: 'longhaul', validate: (value: unknown) => ({ value }),
      jsonSchema: { input: described, output: described },
    },
  }
}

/** Restores the parts that the SDK has taken out of the message. */
function sdkRequest(given: unknown, { mcpReq, http }: SdkContext): SdkRequest {
  const { envelope, inputResponses, signal, _meta } = mcpReq
  const requestState = mcpReq.requestState()
  const params: JsonObject = {
    ...isJsonObject(given) && given, _meta: envelope,
    ...inputResponses !== undefined && { inputResponses }, ...requestState !== undefined && { requestState },
  }
  const progressToken = _meta?.progressToken
  let sent = -Infinity
  return {
    params, authInfo: http?.authInfo, signal,
    // With an earlier protocol the SDK asks the client itself.
    mayAsk: envelope === undefined || declaresForms(params),
    ...progressToken !== undefined && {
      onProgress: async ({ done, total, message }: TaskProgress) => {
        // Each value must be larger than the one before. A new attempt begins again.
        if (done <= sent) return
        sent = done
        const shown = { ...total !== undefined && { total }, ...message !== undefined && { message } }
        const params = { progressToken, progress: done, ...shown }
        // It fails if the client has gone, which the signal says too.
        await mcpReq.notify({ method: 'notifications/progress', params }).catch(() => undefined)
      },
    },
  }
}
