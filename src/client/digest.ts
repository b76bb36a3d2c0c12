interface RunningHash {
  update(bytes: Uint8Array): unknown
  digest(encoding: 'base64'): string
}

interface NodeProcess {
  getBuiltinModule?(name: string): { createHash(algorithm: string): RunningHash } | undefined
}

const MEMBER = /(?:^|,)[ \t]*sha-(256|512)=:([A-Za-z0-9+/]+)=*:/g

export class ReprDigest {
  private constructor(private readonly hash: RunningHash, private readonly expected: string) {}

  /**
   * Returns the check for a response. `undefined` if it has no digest that can be checked here, or
   * is compressed, because its digest is of the compressed bytes.
   */
  static of(headers: Headers): ReprDigest | undefined {
    const header = headers.get('repr-digest')
    if (header === null || (headers.get('content-encoding') ?? 'identity') !== 'identity') {
      return undefined
    }
    for (const [, bits = '', expected = ''] of header.matchAll(MEMBER)) {
      const hash = newHash(bits)
      if (hash) return new ReprDigest(hash, expected)
    }
    return undefined
  }

  update(bytes: Uint8Array): void {
    this.hash.update(bytes)
  }

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

const BLOCK = 64

type Eight = [number, number, number, number, number, number, number, number]

export class Sha256 {
  private readonly state: Int32Array
  private readonly rounds: Int32Array
  private readonly words = new Int32Array(64)
  private readonly rest = new Uint8Array(BLOCK)
  private filled = 0
  private length = 0

  constructor() {
    const primes: number[] = []
    for (let n = 2; primes.length < 64; n++) {
      if (primes.every((prime) => n % prime !== 0)) primes.push(n)
    }
    // The first 32 bits of the fractions of the roots of the first primes (sections 4.2.2, 5.3.3).
    this.state = Int32Array.from(primes.slice(0, 8), (prime) => Math.sqrt(prime) * 2 ** 32 | 0)
    this.rounds = Int32Array.from(primes, (prime) => Math.cbrt(prime) * 2 ** 32 | 0)
  }

  update(bytes: Uint8Array): void {
    this.length += bytes.length
    let at = 0
    if (this.filled > 0) {
      at = Math.min(BLOCK - this.filled, bytes.length)
      this.rest.set(bytes.subarray(0, at), this.filled)
      this.filled += at
      if (this.filled < BLOCK) return
      this.addBlock(this.rest, 0)
    }
    for (; at + BLOCK <= bytes.length; at += BLOCK) this.addBlock(bytes, at)
    this.rest.set(bytes.subarray(at))
    this.filled = bytes.length - at
  }

  digest(): string {
    const { length, state } = this
    const padding = new Uint8Array((this.filled < 56 ? BLOCK : 2 * BLOCK) - this.filled)
    padding[0] = 0x80
    const view = new DataView(padding.buffer)
    view.setUint32(padding.length - 8, Math.floor(length / 2 ** 29))
    view.setUint32(padding.length - 4, length * 8 >>> 0)
    this.update(padding)
    const bytes = new DataView(new ArrayBuffer(32))
    state.forEach((word, at) => { bytes.setInt32(at * 4, word) })
    return btoa(String.fromCharCode(...new Uint8Array(bytes.buffer)))
  }

  private addBlock(bytes: Uint8Array, from: number): void {
    const { state, rounds, words } = this
    const view = new DataView(bytes.buffer, bytes.byteOffset + from, BLOCK)
    for (let t = 0; t < 16; t++) words[t] = view.getInt32(t * 4)
    for (let t = 16; t < 64; t++) {
      const x = words[t - 15] as number
      const y = words[t - 2] as number
      const s0 = (x >>> 7 | x << 25) ^ (x >>> 18 | x << 14) ^ x >>> 3
      const s1 = (y >>> 17 | y << 15) ^ (y >>> 19 | y << 13) ^ y >>> 10
      words[t] = (words[t - 16] as number) + s0 + (words[t - 7] as number) + s1
    }
    let [a, b, c, d, e, f, g, h] = state as Iterable<number> as Eight
    for (let t = 0; t < 64; t++) {
      const s1 = (e >>> 6 | e << 26) ^ (e >>> 11 | e << 21) ^ (e >>> 25 | e << 7)
      const t1 = h + s1 + (e & f ^ ~e & g) + (rounds[t] as number) + (words[t] as number) | 0
      const s0 = (a >>> 2 | a << 30) ^ (a >>> 13 | a << 19) ^ (a >>> 22 | a << 10)
      const t2 = s0 + (a & b ^ a & c ^ b & c) | 0
      h = g
      g = f
      f = e
      e = d + t1 | 0
      d = c
      c = b
      b = a
      a = t1 + t2 | 0
    }
    for (const [at, sum] of [a, b, c, d, e, f, g, h].entries()) state[at] = (state[at] as number) + sum
  }
}
