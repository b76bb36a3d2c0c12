import assert from 'node:assert/strict'
import { test } from 'node:test'

/** What users of plain JavaScript may call with anything. */
export type Loose = (...args: unknown[]) => unknown

/**
 * Asserts a `TypeError` with this message. The list of the names that exist may follow the message
 * of an unknown option.
 */
export function refusesCall(call: () => unknown, message: string): void {
  assert.throws(call, (error: Error) => {
    assert.equal(error.name, 'TypeError')
    const text = message.includes('there is no option')
      ? error.message.replace(/ The (only )?options? (is|are) [^?]+\.$/, '')
      : error.message
    assert.equal(text, message)
    return true
  })
}

/** A test for each: what is called throws a `TypeError` with this message. */
export function refuses(cases: readonly (readonly [call: () => unknown, message: string])[]): void {
  for (const [call, message] of cases) test(message, () => { refusesCall(call, message) })
}
