import { httpError, type ErrorCode, type HttpError } from '../http/errors.js'
import { jsonFault } from '../http/body/json-fault.js'
import type { ElementPosition } from './element-batch.js'
import type { TextPlace } from './text-place.js'

/** What is wrong with a member of the body that is not the array. */
export const UNKNOWN_MEMBER = 'is not a known member'

/** Where and in what a fault is. */
export interface FaultPlace {
  readonly item: number
  /** JSON pointer to the element, or to what else is at fault. */
  readonly pointer: string
  readonly place: TextPlace
}

/**
 * What is not JSON: `rest` is the text from `place` on. `before` is some text that leads to the
 * same state of a parser as all that was read before, such as `[0,` behind a comma of the array, so
 * the place is the one that the whole text would give. `undefined` when nothing is wrong, or only
 * that the text is cut short and it is not `whole`.
 */
export function malformed(where: FaultPlace, before: string, rest: string, whole: boolean): HttpError | undefined {
  const fault = jsonFault(before + rest)
  if (fault === undefined || (!whole && fault.offset === before.length + rest.length)) return undefined
  const into = fault.offset - before.length
  const { offset, line, column } = where.place
  const position = {
    item: where.item, line: line + fault.line - 1, column: fault.line === 1 ? column + into : fault.column, offset: offset + into,
  }
  return elementFault('malformed_json', where.pointer, position, 'The body is not valid JSON', `${fault.expected} was expected`)
}

/** The fault of an element that stands at `place` or begins there. */
export function faultAt(code: ErrorCode, { item, pointer, place }: FaultPlace, message: string, why: string): HttpError {
  return elementFault(code, pointer, { item, line: place.line, column: place.column, offset: place.offset }, message, why)
}

function elementFault(code: ErrorCode, pointer: string, position: ElementPosition, message: string, why: string): HttpError {
  const place = `line ${position.line}, column ${position.column} (offset ${position.offset})`
  return httpError(code, {
    message: `${message}: at ${place}, ${why}.`,
    details: [{ pointer, message: `${place}: ${why}.` }],
    members: { position },
  })
}
