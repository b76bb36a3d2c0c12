import { hash, randomBytes, timingSafeEqual } from 'node:crypto'

let drawn: string | undefined

/**
 * The salt of this process. Nobody outside knows it, so nobody can choose texts whose digests are
 * alike. The time that a comparison or a lookup of two digests takes tells nothing about the
 * secrets behind them. Drawn when it is first needed, because a Worker has no random bytes while
 * its module is loaded.
 */
function salt(): string {
  return drawn ??= randomBytes(32).toString('base64url')
}

/** A digest under a salt of this process. It takes the place of a secret in maps and caches. */
export function secretDigest(text: string): string {
  return hash('sha256', salt() + text, 'base64url')
}

/**
 * Whether two secrets are the same, in a time that does not depend on where they differ. For a
 * `verify` of your own; its time tells their lengths at most.
 */
export function sameSecret(a: string, b: string): boolean {
  return timingSafeEqual(hash('sha256', salt() + a, 'buffer'), hash('sha256', salt() + b, 'buffer'))
}

/** So many are compared one by one, which takes less time than one digest. */
const FEW = 16

/**
 * Texts that are secret, and what each stands for. What a look-up takes tells the lengths of the
 * secrets at most.
 */
export class SecretTable<V> {
  readonly #values = new Map<string, V>()
  readonly #few: { readonly bytes: Buffer, readonly asked: Buffer, readonly value: V }[] = []
  #byDigest: Map<string, V> | undefined

  /** One that is there already keeps what it stands for. */
  add(secret: string, value: V): void {
    if (this.#values.has(secret)) return
    this.#values.set(secret, value)
    this.#byDigest = undefined
    const bytes = Buffer.from(secret)
    this.#few.push({ bytes, asked: Buffer.alloc(bytes.length), value })
  }

  get(secret: string): V | undefined {
    return this.#few.length > FEW ? this.#digests().get(secretDigest(secret)) : this.#compare(secret)
  }

  #digests(): Map<string, V> {
    return this.#byDigest ??= new Map(Array.from(this.#values, ([secret, value]) => [secretDigest(secret), value]))
  }

  /** With all of them: the one that is found ends nothing sooner. */
  #compare(secret: string): V | undefined {
    const length = Buffer.byteLength(secret)
    let found: V | undefined
    for (const { bytes, asked, value } of this.#few) {
      // Written over each time: a buffer for each request costs more than the comparison.
      if (bytes.length === length && asked.write(secret) === length && timingSafeEqual(bytes, asked)) found = value
    }
    return found
  }
}
