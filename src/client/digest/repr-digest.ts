import { Sha256 } from './sha256.js'

interface RunningHash {
  update(bytes: Uint8Array): unknown
  digest(encoding: 'base64'): string
}

interface NodeProcess {
  getBuiltinModule?(name: string): { createHash(algorithm: string): RunningHash } | undefined
}

const MEMBER = /(?:^|,)[ \t]*sha-(256|512)=:([A-Za-z0-9+/]+)=*:/g

/** Compares the content of a download with its `Repr-Digest` (RFC 9530 section 3). */
export class ReprDigest {
  private constructor(private readonly hash: RunningHash, private readonly expected: string) {}

  /**
   * Returns the check for the content of an answer. Returns `undefined` if the answer has no digest
   * that can be checked here, or a content coding: then the digest is not of the content.
   */
  static of(headers: Headers): ReprDigest | undefined {
    const field = headers.get('repr-digest')
    if (field === null || (headers.get('content-encoding') ?? 'identity') !== 'identity') {
      return undefined
    }
    for (const [, bits = '', expected = ''] of field.matchAll(MEMBER)) {
      const hash = newHash(bits)
      if (hash) return new ReprDigest(hash, expected)
    }
    return undefined
  }

  update(bytes: Uint8Array): void {
    this.hash.update(bytes)
  }

  /** Returns true if the bytes have the digest. Call it once, after the last byte. */
  matches(): boolean {
    return this.hash.digest('base64').replace(/=+$/, '') === this.expected
  }
}

function newHash(bits: string): RunningHash | undefined {
  const { process } = globalThis as { process?: NodeProcess }
  const native = process?.getBuiltinModule?.('node:crypto')
  if (native) return native.createHash(`sha${bits}`)
  return bits === '256' ? new Sha256() : undefined
}
