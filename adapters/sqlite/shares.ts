import type { Database } from './database.js'

/** Kind of what counts for an owner: final tasks, files of final tasks, entries of the store. */
export type ShareKind = 't' | 'f' | 'e'

/** Maximum number of tasks or entries that one write removes: the event loop waits for them. */
export const MAX_REMOVED = 1000

/** Number and bytes of what counts for an owner. */
export interface Share {
  readonly count: number
  readonly bytes: number
}

/** Adds to the share of an owner. Returns the new share. In a transaction. */
export function addToShare(
  database: Database, kind: ShareKind, owner: string, { count, bytes }: Share,
): Share {
  const share = database.first<Share>(
    `INSERT INTO longhaul_shares (kind, owner, count, bytes) VALUES (?, ?, ?, ?)
ON CONFLICT (kind, owner) DO UPDATE SET count = count + excluded.count, bytes = bytes + excluded.bytes
RETURNING count, bytes`, kind, owner, count, bytes,
  ) as Share
  if (Number(share.count) <= 0) {
    database.run('DELETE FROM longhaul_shares WHERE kind = ? AND owner = ?', kind, owner)
  }
  return { count: Number(share.count), bytes: Number(share.bytes) }
}
