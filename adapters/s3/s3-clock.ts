/** Time after which a measured difference is measured again, in milliseconds. A server may correct its clock. */
const FRESH_MS = 600_000

/** Clock of the server, by the `Date` of its responses, which have whole seconds. */
export class S3Clock {
  #difference = -Infinity
  #measuredAt = -Infinity

  /** Notes the `Date` of a response that has just arrived. */
  note(date: string | undefined): void {
    const time = Date.parse(date ?? '')
    if (Number.isNaN(time)) return
    const at = performance.now()
    // Each Date is up to a second too low, so the highest difference is the best one.
    if (at - this.#measuredAt > FRESH_MS || time - at > this.#difference) {
      this.#difference = time - at
      this.#measuredAt = at
    }
  }

  /** Returns milliseconds since 1970. Call it only after a response has arrived. */
  now(): number {
    return performance.now() + this.#difference
  }
}
