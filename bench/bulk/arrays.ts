import { usersText, userText } from './users.js'

const nested = (index: number): string => (
  `{"user":${userText(index)},"visits":[{"page":"/${index}","at":{"day":${index % 31}}},{"page":"/a","at":{"day":1.5}}],"note":"a },{ b"}`
)

const KINDS: Readonly<Record<string, () => string>> = {
  'users': () => usersText(100_000),
  'indented': () => JSON.stringify(JSON.parse(usersText(100_000)), undefined, 2),
  'nested': () => `[${Array.from({ length: 40_000 }, (_, index) => nested(index)).join(',')}]`,
  'multi-byte': () => usersText(100_000).replaceAll('User', 'Jürgen 東京'),
}

export const ARRAY_KINDS = Object.keys(KINDS)

/** A large array of a kind. */
export function bytesOf(kind: string): Buffer {
  return Buffer.from((KINDS[kind] as () => string)())
}
