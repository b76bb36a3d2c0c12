/** The kinds of lines that are measured, as texts of one line each. */
export const KINDS: Readonly<Record<string, (id: number) => object>> = {
  'small': (id) => ({ id, name: `User ${id}`, email: `user${id}@example.com`, active: id % 2 === 0 }),
  '1 KiB': (id) => ({
    id, name: `User ${id}`, email: `user${id}@example.com`, address: { street: `${id} Long Street`, city: 'Somewhere', geo: { lat: id / 7, lng: -id / 3 } },
    tags: ['alpha', 'beta', 'gamma', 'delta'],
    history: Array.from({ length: 8 }, (_, at) => ({ at: `2026-01-0${at + 1}T00:00:00Z`, kind: 'visited', page: `/pages/${id}/${at}` })),
    note: 'x'.repeat(250),
  }),
  'multi-byte': (id) => ({ id, name: `Jürgen Müller ${id} 日本語`, city: 'Zürich — 東京', ok: true }),
}

const COUNTS: Readonly<Record<string, number>> = { '1 KiB': 15_000 }

export function recordsOf(kind: string): object[] {
  const make = KINDS[kind] as (id: number) => object
  return Array.from({ length: COUNTS[kind] ?? 200_000 }, (_, id) => make(id))
}

/** Returns NDJSON of a kind. `1 % malformed` has small records, and each hundredth is truncated. */
export function bytesOf(kind: string): Buffer {
  const broken = kind === '1 % malformed'
  const lines = recordsOf(broken ? 'small' : kind).map((record, at) => (
    broken && at % 100 === 50 ? JSON.stringify(record).slice(0, -5) : JSON.stringify(record)
  ))
  return Buffer.from(`${lines.join('\n')}\n`)
}

export const READ_KINDS = ['small', '1 KiB', '1 % malformed', 'multi-byte']
export const WRITE_KINDS = ['small', '1 KiB']
