const COUNTED = [
  'charCodeAt', 'slice', 'startsWith', 'endsWith', 'indexOf', 'toLowerCase', 'trim', 'split',
  'replace',
] as const

/**
 * How many characters `work` may have looked at: one for each single look, the whole text for each method that can walk
 * through it. Independent of the machine's speed, so linear growth can be asserted.
 */
export function countSteps(work: () => unknown): number {
  const prototype = String.prototype as unknown as Record<string, (...args: unknown[]) => unknown>
  const originals = new Map(COUNTED.map((name) => [name, prototype[name]]))
  let steps = 0
  try {
    for (const [name, original] of originals) {
      prototype[name] = function (this: string, ...args: unknown[]): unknown {
        const result = Reflect.apply(original as () => unknown, this, args)
        if (name === 'charCodeAt') steps += 1
        else if (name === 'slice') steps += (result as string).length
        else if (name === 'startsWith' || name === 'endsWith') steps += (args[0] as string).length
        else steps += this.length
        return result
      }
    }
    work()
  } finally {
    for (const [name, original] of originals) prototype[name] = original as () => unknown
  }
  return steps
}
