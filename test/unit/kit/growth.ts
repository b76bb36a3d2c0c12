/** The factor between the two sizes. Quadratic work takes 10,000 times as long for the larger one. */
const FACTOR = 100
const ROUNDS = 3
/** Shortest time in milliseconds that counts, because the clock measures nothing below it well. */
const FLOOR_MS = 0.05
/** Linear work needs some 100. The rest is for a busy machine. */
const MAX_RATIO = 1000

/**
 * Returns whether the time of work grows linearly with its size, whatever the speed of this machine is. Each size has
 * the shortest time of several rounds.
 *
 * @param work - prepares work of a size, and returns it
 */
export function isLinear(work: (size: number) => () => void, size = 1000): boolean {
  const [small, large] = [work(size), work(size * FACTOR)]
  return shortest(large) < MAX_RATIO * Math.max(shortest(small), FLOOR_MS)
}

/** Returns the shortest time of several rounds of work, in milliseconds. */
export function shortest(work: () => void, rounds = ROUNDS): number {
  return Math.min(...Array.from({ length: rounds }, () => {
    const began = performance.now()
    work()
    return performance.now() - began
  }))
}
