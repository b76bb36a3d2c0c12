import { checkJsonType, readJson, unsupported } from '../http/body/body.js'
import { decodeBody, requestCoding, type DecodeOptions } from '../http/body/decode.js'
import { httpError, type HttpError } from '../http/errors.js'
import type { HttpRequest } from '../http/exchange.js'
import { Gathered } from '../runtime/byte-buffer.js'
import { isJsonObject } from '../http/body/json-value.js'
import { jsonTextOf, parseJson } from '../http/body/json-text.js'
import { childPointer } from '../schema/pointer.js'
import type { RawBatch } from './batch.js'
import { UNKNOWN_MEMBER } from '../json-array/element-fault.js'
import { readElements } from '../json-array/elements.js'
import { isPlain } from '../json-array/element-text.js'
import type { Plan } from './plan.js'

/**
 * What a request brings: all of it in one batch, so that duplicates are found before anything is
 * written, or what comes by and by.
 */
export type Intake =
  | { readonly whole: true, readonly batches: readonly [RawBatch] }
  | {
    readonly whole: false
    readonly batches: AsyncGenerator<RawBatch>
    /** For who does not read them: a generator that has not begun closes nothing. */
    readonly close: () => unknown
  }

type Shape = Pick<Plan<never>, 'member' | 'maxItems' | 'maxItemBytes' | 'streamAboveBytes'>

/** Whether the body is known to be small, and not coded, so that it can be taken in one go. */
function isSmall({ streamAboveBytes }: Shape, { headers, body }: HttpRequest): boolean {
  const length = headers['content-length']
  return body.parsed === undefined && typeof length === 'string' && Number(length) <= streamAboveBytes && requestCoding(headers) === 'identity'
}

/**
 * Throws `unsupported_media_type`, `unsupported_content_coding`, or `body_too_large` by
 * Content-Length.
 */
export function checkHead({ maxBytes }: Pick<Plan<never>, 'maxBytes'>, { headers, body }: HttpRequest): void {
  checkJsonType(headers)
  // Some bindings and versions of HTTP do not announce a body; only a length of 0 says that there
  // is none.
  if (headers['content-type'] === undefined && headers['content-length'] !== '0') throw unsupported()
  if (body.parsed === undefined) requestCoding(headers)
  if (Number(headers['content-length']) > maxBytes) throw httpError('body_too_large', { message: `The body is larger than ${maxBytes} bytes.` })
}

/**
 * Takes the body of a request. Nothing is written yet when it throws. Rejects with errors of 400,
 * 413 and 415.
 */
export function readIntake(plan: Shape & Required<DecodeOptions>, request: HttpRequest): Promise<Intake> {
  const { parsed } = request.body
  if (parsed !== undefined && typeof parsed.value !== 'string' && !(parsed.value instanceof Uint8Array)) return intakeOfParsed(plan, request)
  const { maxBytes, maxDecodedBytes, maxRatio } = plan
  if (!isSmall(plan, request)) return intakeOfPieces(plan, decodeBody(request, { maxBytes, maxDecodedBytes, maxRatio }))
  // Its Content-Length says that there are no more bytes.
  return request.body.bytes(plan.streamAboveBytes).then((bytes) => intakeOfBytes(plan, bytes ?? new Uint8Array()))
}

async function intakeOfParsed(plan: Shape & Required<DecodeOptions>, request: HttpRequest): Promise<Intake> {
  return intakeOfValue(plan, await readJson(request, { maxBodyBytes: plan.maxBytes }), false)
}

/**
 * A body that is JSON; an item that is too deep fails alone. Throws `malformed_json`, `unsafe_key`,
 * `missing_body`, and as `intakeOfValue`.
 */
function intakeOfBytes(shape: Shape, bytes: Uint8Array): Intake {
  const text = jsonTextOf(bytes)
  return intakeOfValue(shape, parseJson(text, Infinity), isPlain(text))
}

/** Takes what is small in one go, and what is larger as it comes. */
export async function intakeOfPieces(shape: Shape, pieces: AsyncIterable<Uint8Array>): Promise<Intake> {
  const source = pieces[Symbol.asyncIterator]()
  const first = new Gathered()
  while (first.size <= shape.streamAboveBytes) {
    const step = await source.next()
    if (step.done === true) return intakeOfBytes(shape, first.bytes)
    first.add(step.value)
  }
  const { member, maxItems, maxItemBytes: maxElementBytes } = shape
  const batches = readElements(joined(first.bytes, source), { maxItems, maxElementBytes, ...member !== undefined && { member, alone: true } })
  return { whole: false, batches, close: () => source.return?.() }
}

/** How much of what was read is given to the scanner at a time, in bytes. */
const PART_BYTES = 65_536

async function* joined(first: Uint8Array, rest: AsyncIterator<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
  try {
    for (let at = 0; at < first.byteLength; at += PART_BYTES) yield first.subarray(at, at + PART_BYTES)
    for (let step = await rest.next(); step.done !== true; step = await rest.next()) yield step.value
  } finally {
    await rest.return?.()
  }
}

/**
 * The array of a body that was parsed. Throws `invalid_input` where it is not there, `empty_batch`,
 * and `body_too_large` for too many items.
 */
function intakeOfValue({ member, maxItems }: Shape, body: unknown, plain: boolean): Intake {
  const items = member === undefined ? body : memberOf(body, member)
  if (!Array.isArray(items)) throw notAnArray(member)
  if (items.length === 0) throw httpError('empty_batch')
  if (items.length > maxItems) throw httpError('body_too_large', { message: `The body has more than ${maxItems} items.` })
  return { whole: true, batches: [{ start: 0, items, plain }] }
}

function memberOf(body: unknown, member: string): unknown {
  if (isJsonObject(body) && Object.hasOwn(body, member)) {
    const other = Object.keys(body).find((name) => name !== member)
    if (other === undefined) return body[member]
    throw httpError('invalid_input', {
      message: `The body must have no other member than ${JSON.stringify(member)}.`, details: [{ pointer: childPointer('', other), message: UNKNOWN_MEMBER }],
    })
  }
  const details = [{ pointer: childPointer('', member), message: 'is required' }]
  throw httpError('invalid_input', { message: `The body must be an object with the member ${JSON.stringify(member)}, an array.`, details })
}

function notAnArray(member: string | undefined): HttpError {
  const pointer = member === undefined ? '' : childPointer('', member)
  const message = member === undefined ? 'The body must be an array.' : `The member ${JSON.stringify(member)} must be an array.`
  return httpError('invalid_input', { message, details: [{ pointer, message: 'must be array' }] })
}
