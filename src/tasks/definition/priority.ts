/** Largest priority, the same for all engines. (BullMQ's own limit is 2,097,151.) */
export const MAX_PRIORITY = 1_000_000

/**
 * Checks a priority.
 *
 * @throws {TypeError} It is not a whole number from 0 to 1,000,000.
 */
export function checkPriority(priority: number): void {
  if (Number.isInteger(priority) && priority >= 0 && priority <= MAX_PRIORITY) return
  throw new TypeError(
    `priority must be a whole number from 0 to ${String(MAX_PRIORITY)}, not ${String(priority)}`,
  )
}
