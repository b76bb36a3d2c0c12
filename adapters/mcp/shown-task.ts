import { isFinalStatus, type StoredTask } from '../../src/engine/task.js'
import { pollAfter } from '../../src/tasks/http/formats.js'
import { detailsOf, type Details } from '../../src/tasks/record/details.js'
import { resultText, toTaskError } from '../../src/tasks/record/view.js'
import type { HttpError } from '../../src/http/errors.js'
import { CODES, type JsonObject } from './protocol.js'
import { inputRequests, openQuestions } from './questions.js'
import { toolError, type McpTool, type McpToolResult } from './tool.js'

const STATUS = {
  queued: 'working', processing: 'working', input_required: 'input_required',
  completed: 'completed', failed: 'failed', cancelled: 'cancelled',
} as const satisfies Record<StoredTask['status'], string>

/** The end of a call of a tool. */
export type Outcome = { readonly result: JsonObject } | { readonly error: JsonObject } | undefined

/** Returns the task as `tasks/get` shows it: the state, and the questions, the result or the error. */
export function detailedTask(tool: McpTool, task: StoredTask, pollIntervalMs: number | undefined): JsonObject {
  const base = shownTask(task, pollIntervalMs)
  if (task.status === 'input_required') return { ...base, inputRequests: inputRequests(openQuestions(task)) }
  const outcome = outcomeOf(tool, task)
  if (outcome === undefined) return base
  return { ...base, status: 'result' in outcome ? 'completed' : 'failed', ...outcome }
}

/** Returns the state of a task, which is also the handle that a call returns. */
export function shownTask(task: StoredTask, pollIntervalMs = Number(pollAfter(task)) * 1000): JsonObject {
  const { id, status, createdAt, runStartedAt = createdAt, finishedAt = runStartedAt, expiresAt } = task
  const message = messageOf(task)
  return {
    taskId: id, status: STATUS[status],
    ...message !== undefined && { statusMessage: message },
    createdAt: toIso(createdAt), lastUpdatedAt: toIso(finishedAt),
    ttlMs: Math.max(Math.ceil(expiresAt - createdAt), 0),
    ...!isFinalStatus(status) && { pollIntervalMs },
  }
}

/**
 * Returns the outcome of the call of the tool. The message of an `HttpError` below 500 is for the
 * model: a result with `isError`. Any other failure is one of the server: a JSON-RPC error.
 */
export function outcomeOf(tool: McpTool, task: StoredTask): Outcome {
  if (task.status === 'completed') {
    return { result: completeResult(tool.toResult(JSON.parse(resultText(task)) as unknown)) }
  }
  if (task.status !== 'failed') return undefined
  const failure = toTaskError(task)
  if (failure.status < 500) return { result: completeResult(toolError(failureText(failure))) }
  return { error: { code: CODES.internal, message: failure.message, data: { code: failure.code } } }
}

export function completeResult(result: McpToolResult): JsonObject {
  return { resultType: 'complete', ...result }
}

/** Returns one line for each problem of a failure. */
export function failureText({ message, details = [] }: Pick<HttpError, 'message' | 'details'>): string {
  return [message, ...details.map(({ pointer, message: problem }) => `${pointer || '/'} ${problem}`)].join('\n')
}

function messageOf(task: StoredTask): string | undefined {
  const { progress, error }: Details = detailsOf(task)
  if (task.status === 'failed') return error?.message
  if (task.status === 'input_required') return 'The task waits for an answer.'
  if (progress === undefined) return undefined
  const { done, total, message = total === undefined ? String(done) : `${done} of ${total}` } = progress
  return message
}

function toIso(ms: number): string {
  return new Date(ms).toISOString()
}
