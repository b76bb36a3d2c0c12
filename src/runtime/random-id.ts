import { randomFillSync } from 'node:crypto'

const SIZE = 16
const pool = Buffer.allocUnsafe(SIZE * 256)
let next = pool.length

/**
 * A new id: 128 random bits as 22 characters of base64url. Drawn from a pool of random bytes,
 * because one call to the system for each id costs more than all the rest of a small answer.
 */
export function newId(): string {
  if (next === pool.length) {
    randomFillSync(pool)
    next = 0
  }
  const id = pool.toString('base64url', next, next + SIZE)
  // Bytes that became an id are never kept in memory for the next reader.
  pool.fill(0, next, next + SIZE)
  next += SIZE
  return id
}
