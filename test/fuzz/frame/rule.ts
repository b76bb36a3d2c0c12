import assert from 'node:assert/strict'
import type fc from 'fast-check'
import { isHttpError, type HttpError } from '../../../src/http/errors.js'

/** What has to hold whatever comes in. */
export type Rule = fc.IRawProperty<unknown, boolean>

/** What one file of this folder exports: `rules`, and what they need before and leave behind. */
export interface Target {
  readonly rules: Readonly<Record<string, unknown>>
  readonly start?: () => Promise<void>
  readonly stop?: () => Promise<void>
}

/** What `work` gives, or the error that a client would see: 4xx by its code. Anything else that is thrown goes on. */
export function outcome<T>(work: () => T): { readonly value: T } | { readonly refused: HttpError } {
  try {
    return { value: work() }
  } catch (error) {
    return { refused: refusal(error) }
  }
}

/** `error` where a client caused it, in the way that is meant for clients. */
export function refusal(error: unknown): HttpError {
  if (!isHttpError(error)) throw error
  assert.ok(error.status < 500, `${error.status} ${error.code}: ${error.message}`)
  return error
}
