/** Test runner. The modules of node:test, vitest, jest and mocha have this shape. */
export interface Runner {
  /** Registers a group of tests. Calls `body` synchronously. */
  describe(name: string, body: () => void): unknown
  /** Registers one test. It fails if its promise rejects. */
  it(name: string, body: () => Promise<void>): unknown
}

/** Options of all suites. */
export interface SuiteOptions {
  /** Title of the suite. Default: the name of the contract. */
  readonly title?: string
  /** Tolerance of the clock and of the duration of a call, in milliseconds. Default 50. */
  readonly toleranceMs?: number
  /** Time limit for each expected event, in milliseconds. Default 5000. */
  readonly timeoutMs?: number
}

/** Tests by title. */
export type Cases<Context> = Readonly<Record<string, (context: Context) => Promise<void>>>

interface Registration {
  readonly title: string
  /** Maximum number of cases that run at the same time, even if the runner calls one after the other. Default 1. */
  readonly concurrency?: number
}

/**
 * Registers every case with the runner. Each case gets its own context, which is always closed.
 * @param open - opens a context for a case of a group
 */
export function register<Context extends { end(): Promise<void> }>(
  runner: Runner,
  { title, concurrency = 1 }: Registration,
  groups: Readonly<Record<string, Cases<Context>>>,
  open: (group: string) => Promise<Context>,
): void {
  const queue: (() => Promise<void>)[] = []
  const begun: (Promise<void> | undefined)[] = []
  const begin = (at: number): Promise<void> | undefined => {
    const outcome = begun[at] ??= queue[at]?.()
    // The runner gets the rejection when it calls the case.
    outcome?.catch(() => undefined)
    return outcome
  }
  runner.describe(title, () => {
    for (const [group, cases] of Object.entries(groups)) {
      runner.describe(group, () => {
        for (const [name, body] of Object.entries(cases)) {
          const at = queue.push(async () => {
            const context = await open(group)
            try {
              await body(context)
            } finally {
              await context.end()
            }
          }) - 1
          runner.it(name, async () => {
            for (let next = at; next < at + concurrency; next++) void begin(next)
            const outcome = begin(at)
            // A runner that calls the case again runs it again.
            begun[at] = undefined
            await outcome
          })
        }
      })
    }
  })
}
