// Tests of Redis on other servers.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { runOn, type OtherServer } from '../../servers/redis-others.js'

/** The conformance suites of engine and store (single, Cluster and Sentinel), and the faults of Redis. */
const FILES = [
  'conformance/redis-', 'faults/redis/client-settings', 'faults/redis/fail-over',
  'faults/redis/faults', 'faults/redis/half-open', 'faults/redis/lost-reply',
  'faults/redis/replica', 'faults/redis/reshard',
]

/** Defines a test which runs the tests of Redis on another server. */
export function passesOn(server: OtherServer): void {
  test(`the suites of engine and store, and the tests of faults, pass on ${server}`, async () => {
    const { code, output } = await runOn(server, FILES)
    const failures = output.slice(output.indexOf('failing tests:')).slice(0, 20_000)
    assert.equal(code, 0, failures)
    assert.match(output, /^ℹ fail 0$/m)
  })
}
