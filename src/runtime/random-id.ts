import { randomFillSync } from 'node:crypto'

const SIZE = 16
const pool = Buffer.allocUnsafe(SIZE * 256)
let next = pool.length

/** Returns 128 random bits as 22 characters of base64url, from a pool, because a system call is slow. */
export function newId(): string {
  if (next === pool.length) {
    randomFillSync(pool)
    next = 0
  }
  const id = pool.toString('base64url', next, next + SIZE)
  next += SIZE
  return id
}
