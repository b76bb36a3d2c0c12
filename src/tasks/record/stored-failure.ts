import { Buffer } from 'node:buffer'
import { cutText } from '../../runtime/text.js'
import type { StoredError } from '../definition/failed-work.js'

/** The error of one run. */
export interface RunFailure {
  /** Number of the run. */
  readonly attempt: number
  readonly error: StoredError
}

/** The real errors of a task, for its operators and the application's own code. Clients never see it. */
export interface FailureDetails extends RunFailure {
  /** Errors of up to four earlier runs, the oldest first, as far as there is space for them. */
  readonly earlier?: readonly RunFailure[]
  /** The input, once the task has failed. If its JSON has more than 8 KiB: the beginning of the JSON, as a string. */
  readonly input?: unknown
  /** The context of the submission, if there is one. */
  readonly context?: unknown
}

/** Failures as the details of a task keep them, the newest one last. */
export interface StoredFailures {
  readonly runs: readonly RunFailure[]
  /** Input of a failed task as JSON, cut to `MAX_BYTES`. */
  readonly input?: string
}

/** Maximum bytes of the errors of one task, and of its input. */
const MAX_BYTES = 8192
const MAX_RUNS = 5
const MAX_ERRORS = 5
const MAX_NAME_BYTES = 128
const MAX_MESSAGE_BYTES = 2048
const MAX_STACK_BYTES = 4096

/**
 * Returns the newest items within both limits, and at least the last one. `maxBytes` limits their
 * JSON.
 */
export function newestOf<T>(items: readonly T[], max: number, maxBytes: number): readonly T[] {
  const last = items.slice(-max)
  let bytes = 0
  const from = last.findLastIndex((item) => (bytes += Buffer.byteLength(JSON.stringify(item)) + 1) > maxBytes)
  return last.slice(Math.min(from + 1, last.length - 1))
}

/** Adds the error of a run. Older errors are dropped. */
export function withError(
  stored: StoredFailures | undefined, attempt: number, error: StoredError,
): StoredFailures {
  return { ...stored, runs: newestOf([...stored?.runs ?? [], { attempt, error }], MAX_RUNS, MAX_BYTES) }
}

/** @param input - JSON */
export function withInput(stored: StoredFailures, input: string): StoredFailures {
  return { ...stored, input: cutBytes(input, MAX_BYTES) }
}

/** Returns the description of a thrown value, in at most 8 KiB. Never throws. */
export function toStoredError(thrown: unknown): StoredError {
  const space = { left: MAX_BYTES }
  return read(thrown, space, MAX_ERRORS) ?? { name: typeof thrown, message: '' }
}

interface Space { left: number }

function read(thrown: unknown, space: Space, errors: number): StoredError | undefined {
  try {
    if (errors === 0 || space.left <= 0) return undefined
    if (typeof thrown !== 'object' || thrown === null) {
      return { name: typeof thrown, message: take(String(thrown), MAX_MESSAGE_BYTES, space) }
    }
    const { name, message, code, stack, cause } = thrown as Record<string, unknown>
    if (typeof message !== 'string') {
      return { name: 'object', message: take(JSON.stringify(thrown), MAX_MESSAGE_BYTES, space) }
    }
    const shown = take(message, MAX_MESSAGE_BYTES, space)
    return {
      name: typeof name === 'string' ? take(name, MAX_NAME_BYTES, space) : 'Error',
      message: shown,
      ...(typeof code === 'string' || typeof code === 'number') && { code: take(String(code), MAX_NAME_BYTES, space) },
      // A long message in the stack would leave no space for the frames.
      ...typeof stack === 'string' && {
        stack: take(message === '' ? stack : stack.replace(message, () => shown), MAX_STACK_BYTES, space),
      },
      ...next(cause, space, errors - 1),
    }
  } catch {
    // A proxy or a getter of the thrown value threw, or it has no string.
    return { name: typeof thrown, message: 'The thrown value cannot be read.' }
  }
}

function next(cause: unknown, space: Space, errors: number): { readonly cause?: StoredError } {
  const stored = cause === undefined || cause === null ? undefined : read(cause, space, errors)
  return stored === undefined ? {} : { cause: stored }
}

/** Characters that a terminal obeys, or that a database rejects. */
const CONTROLS = /[^\P{Cc}\n\t]/gu

function take(text: string, max: number, space: Space): string {
  const limit = Math.min(max, space.left)
  const taken = storableText(text, limit)
  space.left -= Buffer.byteLength(JSON.stringify(taken))
  return taken
}

/** Returns a text that every engine stores, of at most `max` bytes as a JSON string. */
export function storableText(text: string, max: number): string {
  return cutBytes(cutText(text, max + 1).replaceAll(CONTROLS, '\uFFFD'), max)
}

/** Cuts a text so that it has at most `max` bytes as a JSON string, its quotation marks included. */
function cutBytes(text: string, max: number): string {
  let cut = text.length > max ? cutText(text, max) : text
  cut = cut.toWellFormed()
  for (;;) {
    const bytes = Buffer.byteLength(JSON.stringify(cut))
    if (bytes <= max || cut.length <= 1) return bytes <= max ? cut : ''
    cut = cutText(cut, Math.max(1, Math.floor(cut.length * max / bytes)))
  }
}

/** @param context - the context of the submission */
export function toFailureDetails(
  { runs, input }: StoredFailures, context: unknown,
): FailureDetails | undefined {
  const last = runs.at(-1)
  if (last === undefined) return undefined
  const earlier = runs.slice(0, -1)
  return {
    ...last,
    ...earlier.length > 0 && { earlier },
    ...input !== undefined && { input: toValue(input) },
    ...context !== undefined && { context },
  }
}

function toValue(input: string): unknown {
  try {
    return JSON.parse(input)
  } catch {
    // It was cut.
    return input
  }
}
