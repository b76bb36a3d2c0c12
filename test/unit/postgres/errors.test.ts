import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { faultOf, isBroken, isConnectionError, isLostConnection } from '../../../adapters/postgres/sql.js'
import { reasonOf } from '../../../src/stores/calls.js'

function error(code: string, more: object = {}): Error {
  return Object.assign(new Error(`The error ${code}`), { code, ...more })
}

describe('errors of PostgreSQL and its clients', () => {
  test('are not errors of Node, even if the code of Node has five letters', () => {
    for (const code of ['EPIPE', 'ECONNRESET']) {
      assert.equal(faultOf(error(code)).hasReplied, false, code)
      assert.deepEqual([isBroken(error(code)), isLostConnection(error(code))], [true, true], code)
    }
    for (const code of ['23505', 'P0001', 'HV000', 'XX000', '0A000']) {
      assert.equal(faultOf(error(code)).hasReplied, true, code)
      assert.deepEqual([isBroken(error(code)), isLostConnection(error(code))], [false, false], code)
    }
  })

  test('include a wrong number of parameters, which is not a lost connection, although PgBouncer uses the same code for one', () => {
    assert.equal(isConnectionError(error('08P01', { severity: 'ERROR' })), false)
    assert.equal(isConnectionError(error('08P01', { severity: 'FEHLER' })), false)
    assert.equal(isConnectionError(error('08P01', { severity: 'FATAL' })), true)
    assert.equal(isConnectionError(new Error('wrapped', { cause: error('08006') })), true)
  })

  test('always have a reason', () => {
    const failures = new AggregateError([error('ECONNREFUSED')], '')
    assert.equal(reasonOf(Object.assign(failures, { code: 'ECONNREFUSED' })), 'ECONNREFUSED')
    assert.equal(reasonOf(new AggregateError([], '')), 'AggregateError')
    assert.equal(reasonOf(error('23505')), 'The error 23505')
    assert.equal(reasonOf('text'), 'text')
  })
})
