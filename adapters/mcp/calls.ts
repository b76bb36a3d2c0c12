import { isFinalStatus, type StoredTask } from '../../src/engine/task.js'
import { isJsonObject } from '../../src/http/body/json.js'
import { isHttpError } from '../../src/http/errors.js'
import { readFailure } from '../../src/http/failure.js'
import { countedAsOwner, UNKNOWN_CALLER } from '../../src/http/requester.js'
import { telling } from '../../src/runtime/warning.js'
import { submitTask } from '../../src/tasks/core/accept-task.js'
import { answerTask } from '../../src/tasks/core/answer-task.js'
import { cancelTask } from '../../src/tasks/core/change-task.js'
import type { TaskCore } from '../../src/tasks/core/task-core.js'
import { detailsOf, isIn, type Details } from '../../src/tasks/record/details.js'
import type { TaskProgress } from '../../src/wire/task.js'
import { pausesWait, waitFor } from '../../src/tasks/record/subscriptions.js'
import {
  CODES, declaresTasks, invalidParams, McpError, missingExtension, unknownTask, type JsonObject,
} from './protocol.js'
import { answerIn, inputRequests, openQuestions } from './questions.js'
import { completeResult, detailedTask, failureText, outcomeOf, shownTask } from './shown-task.js'
import { toolError, type McpTool } from './tool.js'

/** One request of a client. */
export interface RequestingClient {
  readonly owner: string | undefined
  /** Value that `run` receives as `context`. */
  readonly context: unknown
  readonly signal: AbortSignal | undefined
  readonly onProgress: ((progress: TaskProgress) => unknown) | undefined
  /** `true` if the client may be asked in the response to a call that waits. */
  readonly mayAsk: boolean
}

/** Maximum number of attempts to store answers while others answer too. */
const MAX_TRIES = 5
const ACKNOWLEDGED: JsonObject = { resultType: 'complete' }

/** The methods of MCP that are about tasks. Each takes the params of a request and returns its result. */
export class ToolCalls {
  readonly #tools: ReadonlyMap<string, McpTool>

  constructor(
    private readonly core: TaskCore, tools: readonly McpTool[],
    private readonly pollIntervalMs: number | undefined,
  ) {
    this.#tools = new Map(tools.map((tool) => [tool.definition.name, tool]))
  }

  /**
   * Calls a tool. A client that declares the extension gets the handle of the task, which is stored. For
   * another one the call waits for the result. If the task asks meanwhile, the result is the question, and
   * the client calls again with the answer (multi round-trip requests).
   */
  async call(tool: McpTool, params: JsonObject, client: RequestingClient): Promise<JsonObject> {
    const { requestState, inputResponses = {} } = params
    let task: StoredTask
    if (requestState === undefined) {
      try {
        task = await this.#submit(tool, params, client)
      } catch (error) {
        const failure = readFailure(error)
        if (failure.status >= 500) throw error
        // The model can mend its arguments, or try again later.
        return completeResult(toolError(failureText(failure)))
      }
    } else {
      ({ task } = await this.#find(requestState, client))
      if (task.name !== tool.definition.name) throw unknownTask()
      await this.#answer(task.id, inputResponses, client)
    }
    if (declaresTasks(params)) return { resultType: 'task', ...shownTask(task, this.pollIntervalMs) }
    return this.#shown(tool, await this.#ended(task, client), client)
  }

  /** `tasks/get` */
  async get(params: JsonObject, client: RequestingClient): Promise<JsonObject> {
    const { task, tool } = await this.#find(taskIdOf(params), client)
    return { resultType: 'complete', ...detailedTask(tool, task, this.pollIntervalMs) }
  }

  /** `tasks/update`: answers questions. Responses to questions that are not open are ignored. */
  async update(params: JsonObject, client: RequestingClient): Promise<JsonObject> {
    const { task } = await this.#find(taskIdOf(params), client)
    await this.#answer(task.id, params['inputResponses'], client)
    return ACKNOWLEDGED
  }

  /** `tasks/cancel`. A task that has ended stays as it is. */
  async cancel(params: JsonObject, client: RequestingClient): Promise<JsonObject> {
    const { task } = await this.#find(taskIdOf(params), client)
    await cancelTask(this.core, task.id, client)
    return ACKNOWLEDGED
  }

  async #submit(tool: McpTool, params: JsonObject, client: RequestingClient): Promise<StoredTask> {
    const { owner, context } = client
    const { task } = await submitTask(this.core, tool.definition, params['arguments'] ?? {}, {
      owner, context, isRequest: true,
      caller: owner === undefined ? UNKNOWN_CALLER : countedAsOwner(owner),
    })
    return task
  }

  async #find(id: unknown, client: RequestingClient): Promise<{ readonly task: StoredTask, readonly tool: McpTool }> {
    const task = typeof id === 'string' ? await this.core.read(id) : undefined
    const tool = task && this.#tools.get(task.name)
    if (!task || !tool || !isIn(client, task)) throw unknownTask()
    return { task, tool }
  }

  /** Waits until the task is final, or asks. If the client stops waiting, cancels the task. */
  async #ended({ id, version }: StoredTask, client: RequestingClient): Promise<StoredTask> {
    const { signal, onProgress } = client
    let seen = version
    for (;;) {
      const until = (now: StoredTask) => pausesWait(now) || now.version > seen
      const task = await waitFor(this.core.subscriptions, id, client, { timeoutMs: Infinity, signal, until })
      if (task === undefined) throw unknownTask()
      if (pausesWait(task)) return task
      if (signal?.aborted === true) {
        await cancelTask(this.core, id, client)
        throw new McpError(CODES.internal, 'The request was cancelled')
      }
      seen = task.version
      const { progress }: Details = detailsOf(task)
      if (progress !== undefined && onProgress) telling(() => onProgress(progress))
    }
  }

  async #shown(tool: McpTool, task: StoredTask, client: RequestingClient): Promise<JsonObject> {
    if (!isFinalStatus(task.status)) {
      // Without this, the task would wait for somebody who cannot answer.
      if (!client.mayAsk) await cancelTask(this.core, task.id, client)
      return {
        resultType: 'input_required', inputRequests: inputRequests(openQuestions(task)), requestState: task.id,
      }
    }
    const outcome = outcomeOf(tool, task)
    if (outcome !== undefined && 'result' in outcome) return outcome.result
    const { message = 'The task was cancelled.', data } = outcome?.error ?? {}
    throw new McpError(CODES.internal, String(message), data as JsonObject | undefined)
  }

  async #answer(id: string, responses: unknown, client: RequestingClient): Promise<void> {
    if (!isJsonObject(responses)) throw invalidParams('inputResponses must be an object')
    for (let tries = 1; ; tries++) {
      const { task, tool } = await this.#find(id, client)
      const answers = answersIn(tool, task, responses)
      if (answers === 'declined') {
        await cancelTask(this.core, id, client)
        return
      }
      if (Object.keys(answers).length === 0) return
      try {
        await answerTask(this.core, id, client, answers)
        return
      } catch (error) {
        // Another response was faster. It may have answered some of the questions.
        if (!isHttpError(error) || error.status !== 409 || tries === MAX_TRIES) throw error
      }
    }
  }
}

/** Returns the answers to open questions; `'declined'` if the user has declined. */
function answersIn(tool: McpTool, task: StoredTask, responses: JsonObject): JsonObject | 'declined' {
  const open = openQuestions(task)
  const answers: Record<string, unknown> = {}
  for (const [key, response] of Object.entries(responses)) {
    const question = Object.hasOwn(open, key) ? open[key] : undefined
    if (question === undefined) continue
    const action = isJsonObject(response) ? response['action'] : undefined
    if (isJsonObject(response) && action === 'accept') answers[key] = answerIn(question, response)
    else if (action === 'decline' || action === 'cancel') answers[key] = tool.declined(key, action)
    else throw invalidParams(`The response to ${key} needs the action accept, decline or cancel`)
    if (answers[key] === undefined) {
      if (action !== 'accept') return 'declined'
      answers[key] = null
    }
  }
  return answers
}

function taskIdOf(params: JsonObject): unknown {
  if (!declaresTasks(params)) throw missingExtension()
  return params['taskId']
}
