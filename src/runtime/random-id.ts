import { randomFillSync } from 'node:crypto'

const SIZE = 16
const pool = Buffer.allocUnsafe(SIZE * 256)
let next = pool.length

/**
 * Returns a new id: 128 random bits as 22 characters of base64url. Takes them from a pool of random
 * bytes, because a system call for each id would dominate the cost of a small request.
 */
export function newId(): string {
  if (next === pool.length) {
    randomFillSync(pool)
    next = 0
  }
  const id = pool.toString('base64url', next, next + SIZE)
  next += SIZE
  return id
}
