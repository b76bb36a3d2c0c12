/** Maximum number of nested causes in a warning. */
const MAX_CAUSES = 5

// The brands of http/errors.ts and stores/store.ts, which this folder does not import.
const HTTP_ERROR = Symbol.for('longhaul.HttpError')
const STORE_UNAVAILABLE = Symbol.for('longhaul.StoreUnavailableError')

/** Calls a listener of the application. Reports its error as a warning. */
export function telling(listener: () => unknown): void {
  try {
    const result = listener()
    if (result instanceof Promise) result.catch((failure: unknown) => { warn(failure) })
  } catch (failure) {
    warn(failure)
  }
}

/**
 * Emits a process warning named `LonghaulError`, with the stack of the error and of its causes. A
 * rejection, such as 503 `queue_full`, is one line without a stack.
 *
 * @param about - start of the message: the task or request that failed
 */
export function warn(error: unknown, about?: string): void {
  let text = 'Something failed with a value that cannot be shown'
  try {
    text = textOf(error)
  } catch {
    // A getter or a proxy of the thrown value threw.
  }
  // A string, because a warning that cannot be printed would end the process.
  process.emitWarning(about === undefined ? text : `${about}: ${text}`, 'LonghaulError')
}

/** Used instead of a task id for an error of the worker itself, which belongs to no task. */
export const WORKER_ID = 'worker:engine'

export function aboutTask(
  { taskId, name, attempt }: {
    readonly taskId: string, readonly name: string, readonly attempt: number,
  },
): string {
  if (taskId === WORKER_ID) return 'The worker of this process'
  return `Task ${taskId} (${name}, attempt ${attempt})`
}

function textOf(error: unknown): string {
  const parts: string[] = []
  for (let at = error; parts.length <= MAX_CAUSES; at = (at).cause) {
    parts.push(described(at))
    if (!(at instanceof Error) || at.cause === undefined || at.cause === at) break
  }
  return parts.join('\n[cause] ')
}

function described(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if (HTTP_ERROR in error) {
    const { status, code } = error as Error & { readonly status?: number, readonly code?: string }
    if (status !== 500) return `${error.name}: ${status} ${code}: ${error.message}`
  }
  const isShort = STORE_UNAVAILABLE in error || typeof error.stack !== 'string'
  return isShort ? `${error.name}: ${error.message}` : String(error.stack)
}

/** Returns advice for the error of a runtime that forbids code generation; `undefined` for other errors. */
export function codeGenerationAdvice(error: unknown): string | undefined {
  if (!(error instanceof EvalError)) return undefined
  return 'this runtime forbids code generation here. '
    + 'A Worker allows it while its module is loaded: make the call there'
}
