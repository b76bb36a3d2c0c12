/** Name of the channel of change notices within a schema. */
export const CHANNEL = 'changes'

/** Returns the payload of the notice of a change. Keys are far below the limit of 8000 bytes. */
export function noticeOf(key: string): string {
  return `=${key}`
}

/** Returns the payload of a test of the channel. */
export function probeOf(id: string): string {
  return `?${id}`
}

/** A payload that was received. */
export type Notice = { readonly key: string } | { readonly probe: string }

/** Reads a payload. */
export function readNotice(payload: string): Notice {
  const rest = payload.slice(1)
  return payload.startsWith('?') ? { probe: rest } : { key: rest }
}
