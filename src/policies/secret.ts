import { hash, randomBytes, timingSafeEqual } from 'node:crypto'

let drawn: string | undefined

/**
 * Returns the salt of this process. Nobody outside knows it, so nobody can choose texts with
 * similar digests, and the time of a comparison reveals nothing. Created at first use, because a
 * Worker has no random bytes while its module loads.
 */
function salt(): string {
  return drawn ??= randomBytes(32).toString('base64url')
}

/** A digest under a salt of this process. It takes the place of a secret in maps and caches. */
export function secretDigest(text: string): string {
  return hash('sha256', salt() + text, 'base64url')
}

/**
 * Compares two secrets in a time that does not depend on where they differ, for a `verify` of your
 * own. The time reveals at most their lengths.
 *
 * @example
 * sameSecret(String(request.headers['x-api-key']), 's3cret')
 */
export function sameSecret(a: string, b: string): boolean {
  return timingSafeEqual(hash('sha256', salt() + a, 'buffer'), hash('sha256', salt() + b, 'buffer'))
}

/** Up to so many secrets are compared one by one, which is faster than one digest. */
const FEW = 16

/** Values by secret texts. A lookup reveals at most the lengths of the secrets. */
export class SecretTable<V> {
  readonly #values = new Map<string, V>()
  readonly #few: { readonly bytes: Buffer, readonly asked: Buffer, readonly value: V }[] = []
  #byDigest: Map<string, V> | undefined

  /** Adds a secret. If it is there already, keeps its first value. */
  add(secret: string, value: V): void {
    if (this.#values.has(secret)) return
    this.#values.set(secret, value)
    this.#byDigest = undefined
    const bytes = Buffer.from(secret)
    this.#few.push({ bytes, asked: Buffer.alloc(bytes.length), value })
  }

  get(secret: string): V | undefined {
    return this.#few.length > FEW
      ? this.#digests().get(secretDigest(secret))
      : this.#compare(secret)
  }

  #digests(): Map<string, V> {
    return this.#byDigest ??= new Map(Array.from(this.#values, ([secret, value]) => [secretDigest(secret), value]))
  }

  /** Compares with all secrets: a match ends nothing sooner. */
  #compare(secret: string): V | undefined {
    const length = Buffer.byteLength(secret)
    let found: V | undefined
    for (const { bytes, asked, value } of this.#few) {
      // Written over each time: a buffer for each request costs more than the comparison.
      if (bytes.length === length && asked.write(secret) === length
        && timingSafeEqual(bytes, asked)) {
        found = value
      }
    }
    return found
  }
}
