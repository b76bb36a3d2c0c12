/** The factor between the two sizes. Quadratic work takes 10,000 times as long for the larger one. */
const FACTOR = 100
const ROUNDS = 5
/** Shortest time in milliseconds that counts, because the clock measures nothing below it well. */
const FLOOR_MS = 0.05
/** Linear work needs some 100. The rest is for what else the process does meanwhile, such as collecting garbage. */
const MAX_RATIO = 1000

/**
 * Returns whether the CPU time of work grows linearly with its size, whatever the speed and the load of this machine
 * are. Each size has the shortest time of several rounds.
 *
 * @param work - prepares work of a size, and returns it
 */
export function isLinear(work: (size: number) => () => void, size = 1000): boolean {
  const [small, large] = [work(size), work(size * FACTOR)]
  return shortest(large) < MAX_RATIO * Math.max(shortest(small), FLOOR_MS)
}

/** Returns the shortest CPU time of several rounds of work, in milliseconds. */
export function shortest(work: () => void, rounds = ROUNDS): number {
  return Math.min(...Array.from({ length: rounds }, () => {
    const began = process.cpuUsage()
    work()
    const { user, system } = process.cpuUsage(began)
    return (user + system) / 1000
  }))
}
