import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { upstreamError } from '../../../src/http/errors.js'
import { telling, warn } from '../../../src/runtime/warning.js'

test('upstreamError finds a time-out behind four causes, and ends at circular causes', () => {
  const behind = (count: number): Error => {
    let error = Object.assign(new Error('late'), { code: 'ETIMEDOUT' })
    for (let at = 0; at < count; at++) error = Object.assign(new Error('failed', { cause: error }), { code: 'x' })
    return error
  }
  assert.deepEqual([0, 1, 4, 5].map((count) => upstreamError(behind(count)).status), [504, 504, 504, 502])
  const round = new Error('round')
  round.cause = round
  for (const error of [round, undefined, null, 'late', { code: 7 }]) assert.equal(upstreamError(error).status, 502)
})

test('an unreported error is a warning with its stack, or with its text', async () => {
  const heard = async (work: () => unknown): Promise<string> => {
    const warning = once(process, 'warning')
    work()
    const [{ name, message }] = await warning as [Error]
    assert.equal(name, 'LonghaulError')
    return message
  }
  const bare = Object.assign(new Error('no stack'), { stack: undefined })
  assert.match(await heard(() => { warn(new Error('seen')) }), /^Error: seen\n +at /)
  assert.equal(await heard(() => { warn(bare) }), 'Error: no stack')
  assert.equal(await heard(() => { warn({ stack: 'no error' }) }), '[object Object]')
  assert.equal(await heard(() => { warn(Object.create(null)) }), 'Something failed with a value that cannot be shown')
  assert.equal(await heard(() => { telling(() => { throw 'thrown' }) }), 'thrown')
  assert.equal(await heard(() => { telling(async () => { throw 'rejected' }) }), 'rejected')
})
