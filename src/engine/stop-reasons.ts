const REPLACED = Symbol.for('longhaul.RunReplacedError')
const CLOSING = Symbol.for('longhaul.WorkerClosingError')

/**
 * Abort reason of a run whose task has ended or has a later run, or whose lease has ended. Test for
 * it with `isRunReplaced`.
 */
export class RunReplacedError extends Error {
  override readonly name = 'RunReplacedError'
  readonly [REPLACED] = true
  constructor() {
    super('The task has ended, or another run has begun')
  }
}

/** Returns whether `error` is a `RunReplacedError` of any copy of this package. */
export function isRunReplaced(error: unknown): error is RunReplacedError {
  return typeof error === 'object' && error !== null && REPLACED in error
}

/** Abort reason of a run whose process closes. Test for it with `isWorkerClosing`. */
export class WorkerClosingError extends Error {
  override readonly name = 'WorkerClosingError'
  readonly [CLOSING] = true
  constructor() {
    super('This process is closing')
  }
}

/** Returns whether `error` is a `WorkerClosingError` of any copy of this package. */
export function isWorkerClosing(error: unknown): error is WorkerClosingError {
  return typeof error === 'object' && error !== null && CLOSING in error
}
