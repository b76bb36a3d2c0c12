import { Breaker, type Fault } from '../../src/stores/calls.js'

/** Returns a breaker for the calls to one Redis. `onLate` is called after calls have timed out. */
export function redisBreaker(timeoutMs: number, onLate?: () => void): Breaker {
  return new Breaker({ server: 'Redis', timeoutMs, faultOf, ...onLate && { onLate } })
}

function faultOf(error: unknown): Fault {
  const answered = error instanceof Error && error.name === 'ReplyError'
  const isFull = answered && error.message.includes('OOM ')
  return { answered, reason: isFull ? 'full' : 'unavailable' }
}
