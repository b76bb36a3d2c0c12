import { createHash } from 'node:crypto'

/** Returns the SHA-256 of data as base64url. */
export function digestOf(data: string | Uint8Array): string {
  return createHash('sha256').update(data).digest('base64url')
}
