import { jsonFault } from '../http/body/json-fault.js'
import { httpError, type ErrorCode, type HttpError } from '../http/errors.js'
import type { TextPosition } from './text-position.js'

/** Reason why a member of the body beside the array is refused. */
export const UNKNOWN_MEMBER = 'is not a known member'

/** Position of the error that ended the reading: its member `position`. */
export interface ErrorPosition {
  /** Number of elements before the error, which is the index of a bad element. */
  readonly item: number
  /** From 1. */
  readonly line: number
  /** From 1, in UTF-16 units. */
  readonly column: number
  /** From 0, in UTF-16 units. */
  readonly offset: number
}

/** Place at which an error is reported. */
export interface ErrorPlace {
  readonly item: number
  /** JSON pointer to the bad element, or to another part of the body. */
  readonly pointer: string
  readonly position: TextPosition
}

/**
 * Returns the syntax error of a text that begins at `place`; `undefined` if there is none.
 *
 * @param before - a text that leads a parser to the same state as all that was read before, such as
 * `[0,` after a comma of the array
 * @param complete - the text ends here; otherwise a text that is cut short has no error
 */
export function syntaxError(
  place: ErrorPlace, before: string, text: string, complete: boolean,
): HttpError | undefined {
  const fault = jsonFault(before + text)
  if (fault === undefined) return undefined
  if (!complete && fault.offset === before.length + text.length) return undefined
  const distance = fault.offset - before.length
  const { item, pointer, position: { offset, line, column } } = place
  const position = {
    item,
    line: line + fault.line - 1,
    column: fault.line === 1 ? column + distance : fault.column,
    offset: offset + distance,
  }
  const reason = `${fault.expected} was expected`
  return arrayError('malformed_json', pointer, position, 'The body is not valid JSON', reason)
}

/** Returns the error of what begins at `place`. */
export function errorAt(
  code: ErrorCode, { item, pointer, position }: ErrorPlace, message: string, reason: string,
): HttpError {
  const { line, column, offset } = position
  return arrayError(code, pointer, { item, line, column, offset }, message, reason)
}

function arrayError(
  code: ErrorCode, pointer: string, position: ErrorPosition, message: string, reason: string,
): HttpError {
  const place = `line ${position.line}, column ${position.column} (offset ${position.offset})`
  return httpError(code, {
    message: `${message}: at ${place}, ${reason}.`,
    details: [{ pointer, message: `${place}: ${reason}.` }],
    members: { position },
  })
}
