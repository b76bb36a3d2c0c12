import type { Database } from './database.js'

/** Kind of what counts for an owner: final tasks, files of final tasks, entries of the store. */
export type ShareKind = 't' | 'f' | 'e'

/** Maximum number of tasks or entries that one write removes: the event loop waits for them. */
export const MAX_REMOVED = 1000
/** Maximum number of shares in memory. */
const MAX_KNOWN = 1000

/** Number and bytes of the entries that count for an owner. They are always the newest ones. */
export interface Share {
  readonly count: number
  readonly bytes: number
}

interface KnownShare extends Share {
  readonly kind: ShareKind
  readonly owner: string
  count: number
  bytes: number
  /** True if the file has other numbers until the end of the transaction. */
  isChanged: boolean
}

/** Shares of the owners in one file. A transaction writes a share once, at its end. */
export class Shares {
  private readonly known = new Map<string, KnownShare>()
  private readonly changed: KnownShare[] = []

  constructor(private readonly database: Database) {
    database.onForget(() => {
      this.known.clear()
      this.changed.length = 0
    })
  }

  /** Adds to the share of an owner, in a transaction. Returns the share. */
  add(kind: ShareKind, owner: string, { count, bytes }: Share): Share {
    const share = this.find(kind, owner)
    share.count += count
    share.bytes += bytes
    if (!share.isChanged) {
      if (this.changed.length === 0) this.database.beforeCommit(() => { this.write() })
      this.changed.push(share)
      share.isChanged = true
    }
    return share
  }

  /** Returns the share of an owner. Call it in a transaction. */
  of(kind: ShareKind, owner: string): Share {
    return this.find(kind, owner)
  }

  private find(kind: ShareKind, owner: string): KnownShare {
    const key = kind + owner
    const known = this.known.get(key)
    if (known !== undefined) return known
    const { count, bytes } = this.database.first<Share>(READ, kind, owner) ?? { count: 0, bytes: 0 }
    const share = { kind, owner, count: Number(count), bytes: Number(bytes), isChanged: false }
    this.known.set(key, share)
    return share
  }

  private write(): void {
    for (const share of this.changed.splice(0)) {
      const { kind, owner, count, bytes } = share
      share.isChanged = false
      if (count > 0) this.database.run(WRITE, kind, owner, count, bytes)
      else this.database.run(DELETE, kind, owner)
    }
    if (this.known.size > MAX_KNOWN) this.known.clear()
  }
}

const READ = 'SELECT count, bytes FROM longhaul_shares WHERE kind = ? AND owner = ?'
const WRITE = 'INSERT OR REPLACE INTO longhaul_shares (kind, owner, count, bytes) VALUES (?, ?, ?, ?)'
const DELETE = 'DELETE FROM longhaul_shares WHERE kind = ? AND owner = ?'
