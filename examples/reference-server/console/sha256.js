// SHA-256 (FIPS 180-4), a piece at a time: WebCrypto wants all of the bytes in one go, and only on pages that it deems secure.

/** The first 32 bits of the fractions of the cube roots and square roots of the first primes. */
const { rounds: K, start: START } = constants()
const BLOCK = 64

/** A hash that is fed as the bytes come. */
export class Sha256 {
  #state = Int32Array.from(START)
  #rest = new Uint8Array(BLOCK)
  #filled = 0
  #length = 0
  #words = new Int32Array(BLOCK)

  /** Takes some bytes. */
  update(bytes) {
    this.#length += bytes.length
    let at = 0
    if (this.#filled > 0) {
      at = Math.min(BLOCK - this.#filled, bytes.length)
      this.#rest.set(bytes.subarray(0, at), this.#filled)
      this.#filled += at
      if (this.#filled < BLOCK) return
      this.#block(this.#rest, 0)
    }
    for (; at + BLOCK <= bytes.length; at += BLOCK) this.#block(bytes, at)
    this.#rest.set(bytes.subarray(at))
    this.#filled = bytes.length - at
  }

  /** The hash of all of them, in hexadecimal digits. Ends it. */
  hex() {
    const bits = this.#length * 8
    const padding = new Uint8Array((this.#filled < 56 ? BLOCK : 2 * BLOCK) - this.#filled)
    padding[0] = 0x80
    const view = new DataView(padding.buffer)
    view.setUint32(padding.length - 8, Math.floor(bits / 2 ** 32))
    view.setUint32(padding.length - 4, bits >>> 0)
    this.update(padding)
    return Array.from(this.#state, (word) => (word >>> 0).toString(16).padStart(8, '0')).join('')
  }

  #block(bytes, from) {
    const words = this.#words
    for (let i = 0, at = from; i < 16; i++, at += 4) words[i] = bytes[at] << 24 | bytes[at + 1] << 16 | bytes[at + 2] << 8 | bytes[at + 3]
    for (let i = 16; i < 64; i++) {
      const x = words[i - 15]
      const y = words[i - 2]
      const s0 = (x >>> 7 | x << 25) ^ (x >>> 18 | x << 14) ^ x >>> 3
      const s1 = (y >>> 17 | y << 15) ^ (y >>> 19 | y << 13) ^ y >>> 10
      words[i] = words[i - 16] + s0 + words[i - 7] + s1 | 0
    }
    const state = this.#state
    let [a, b, c, d, e, f, g, h] = state
    for (let i = 0; i < 64; i++) {
      const s1 = (e >>> 6 | e << 26) ^ (e >>> 11 | e << 21) ^ (e >>> 25 | e << 7)
      const t1 = h + s1 + (e & f ^ ~e & g) + K[i] + words[i] | 0
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
    state[0] += a
    state[1] += b
    state[2] += c
    state[3] += d
    state[4] += e
    state[5] += f
    state[6] += g
    state[7] += h
  }
}

function constants() {
  const primes = []
  for (let n = 2; primes.length < 64; n++) if (primes.every((prime) => n % prime !== 0)) primes.push(n)
  return { rounds: Int32Array.from(primes, (prime) => fraction(prime, 3n)), start: primes.slice(0, 8).map((prime) => fraction(prime, 2n)) }
}

/** Exact: the whole root of the number times 2^(32 k), of which the lowest 32 bits are the fraction. */
function fraction(prime, k) {
  const wanted = BigInt(prime) << 32n * k
  let low = 0n
  let high = 1n << 40n
  while (high - low > 1n) {
    const middle = low + high >> 1n
    if (middle ** k <= wanted) low = middle
    else high = middle
  }
  return Number(BigInt.asIntN(32, low))
}
