import { hash, randomBytes, timingSafeEqual } from 'node:crypto'

// Nobody outside knows the salt, so nobody can choose texts whose digests are alike: how long a comparison or a
// look-up of two digests takes tells nothing about the secrets behind them.
const SALT = randomBytes(32).toString('base64url')

/** A digest under a salt of this process. It takes the place of a secret in maps and caches. */
export function secretDigest(text: string): string {
  return hash('sha256', SALT + text, 'base64url')
}

/**
 * Whether two secrets are the same, in a time that does not depend on where they differ. For a `verify` of your own; its
 * time tells their lengths at most.
 */
export function sameSecret(a: string, b: string): boolean {
  return timingSafeEqual(hash('sha256', SALT + a, 'buffer'), hash('sha256', SALT + b, 'buffer'))
}

/** Texts that are secret, and what each stands for. Holds digests only. */
export class SecretTable<V> {
  readonly #byDigest = new Map<string, V>()

  /** False when the secret is there already. */
  add(secret: string, value: V): boolean {
    const digest = secretDigest(secret)
    if (this.#byDigest.has(digest)) return false
    this.#byDigest.set(digest, value)
    return true
  }

  get(secret: string): V | undefined {
    return this.#byDigest.get(secretDigest(secret))
  }
}
