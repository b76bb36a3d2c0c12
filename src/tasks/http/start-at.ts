import { isJsonObject } from '../../http/body/json.js'
import { httpError } from '../../http/errors.js'
import { parseTimestamp } from '../../http/headers/dates.js'
import { childPointer } from '../../schema/pointer.js'
import type { Start } from '../core/accept-task.js'

/** Returns the start, given the time of the engine. Throws 422 `start_at_out_of_range`. */
export type FindStartTime = (now: number) => Start

const MAX_DELAY_MS = 366 * 86_400_000

/** Tolerance for a time in the past, in milliseconds. */
const LATE_MS = 1000

/** A duration of RFC 3339 (appendix A), without years and months, whose length varies. */
const DURATION = /^P(?!$)(?:(\d{1,4})W|(?:(\d{1,6})D)?(?:T(?!$)(?:(\d{1,7})H)?(?:(\d{1,8})M)?(?:(\d{1,9})S)?)?)$/

const UNITS_MS = [604_800_000, 86_400_000, 3_600_000, 60_000, 1000]

/** Parses a timestamp, or a duration such as `PT90M`. Throws 400 `invalid_start_at`. */
export function parseStart(value: unknown, body: unknown): FindStartTime {
  const fault = (code: 'invalid_start_at' | 'start_at_out_of_range', message: string) => (
    httpError(code, { details: [{ pointer: pointerTo(value, body), message }] })
  )
  if (typeof value !== 'string') throw fault('invalid_start_at', 'must be string')
  const time = parseTimestamp(value)
  const duration = time === undefined ? parseDuration(value) : undefined
  if (time === undefined && duration === undefined) {
    throw fault('invalid_start_at', 'must be a time such as 2026-12-24T18:00:00Z, or PT90M')
  }
  return (now) => {
    const delayMs = duration ?? (time as number) - now
    if (delayMs < -LATE_MS) throw fault('start_at_out_of_range', 'must not be in the past')
    if (delayMs > MAX_DELAY_MS) throw fault('start_at_out_of_range', 'must be at most a year ahead')
    return { at: now + delayMs, delayMs: Math.max(delayMs, 0) }
  }
}

function parseDuration(text: string): number | undefined {
  const parts = DURATION.exec(text)?.slice(1)
  return parts?.reduce((ms, part = '0', at) => ms + Number(part) * (UNITS_MS[at] ?? 0), 0)
}

/**
 * Returns the JSON pointer to the value that `startAt` of the application has found in the body. `''`
 * if the value is in several places, or comes from elsewhere, such as a header.
 */
function pointerTo(value: unknown, body: unknown): string {
  if (!isJsonObject(body)) return ''
  if (body['startAt'] === value) return '/startAt'
  const [pointer = '', other] = placesOf(value, body, '')
  return other === undefined ? pointer : ''
}

function* placesOf(value: unknown, node: object, pointer: string): Generator<string, void> {
  for (const key in node) {
    const child = (node as Readonly<Record<string, unknown>>)[key]
    if (child === value) yield childPointer(pointer, key)
    else if (typeof child === 'object' && child !== null) {
      yield* placesOf(value, child, childPointer(pointer, key))
    }
  }
}
