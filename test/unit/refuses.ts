import assert from 'node:assert/strict'
import { test } from 'node:test'

/** What users of plain JavaScript may call with anything. */
export type Loose = (...args: unknown[]) => unknown

/** A test for each: what is called throws a `TypeError` with this message. */
export function refuses(cases: readonly (readonly [call: () => unknown, message: string])[]): void {
  for (const [call, message] of cases) test(message, () => { assert.throws(call, { name: 'TypeError', message }) })
}
