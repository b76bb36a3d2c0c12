/**
 * Numbers that one seed decides (mulberry32), so that a run can be made again. What the machine
 * does meanwhile no seed decides.
 */
export class Random {
  private state: number

  constructor(seed: number) {
    this.state = seed >>> 0
  }

  /** From 0 up to 1. */
  next(): number {
    this.state = (this.state + 0x6d2b79f5) >>> 0
    let mixed = this.state
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }

  between(low: number, high: number): number {
    return low + this.next() * (high - low)
  }

  chance(share: number): boolean {
    return this.next() < share
  }

  one<Value>(values: readonly Value[]): Value {
    return values[Math.floor(this.next() * values.length)] as Value
  }

  /** One of the names, as often as its weight says. */
  pick<Name extends string>(weights: Readonly<Record<Name, number>>): Name {
    const entries = Object.entries(weights) as [Name, number][]
    let left = this.next() * entries.reduce((sum, [, weight]) => sum + weight, 0)
    for (const [name, weight] of entries) if ((left -= weight) < 0) return name
    return (entries[0] as [Name, number])[0]
  }
}
