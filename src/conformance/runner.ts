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

/**
 * Registers every case with the runner. Each case gets its own context, which is always closed.
 *
 * @param open - opens a context for a case of a group
 * @param concurrency - maximum number of cases that run at the same time, even if the runner calls
 * one after the other
 */
export function register<Context extends { end(): Promise<void> }>(
  runner: Runner,
  title: string,
  groups: Readonly<Record<string, Cases<Context>>>,
  open: (group: string) => Promise<Context>,
  concurrency = 1,
): void {
  const queue: Case[] = []
  runner.describe(title, () => {
    for (const [group, cases] of Object.entries(groups)) {
      runner.describe(group, () => {
        for (const [name, body] of Object.entries(cases)) {
          const own = new Case(async () => {
            const context = await open(group)
            try {
              await body(context)
            } finally {
              await context.end()
            }
          })
          const at = queue.push(own) - 1
          runner.it(name, () => {
            for (const next of queue.slice(at, at + concurrency)) void next.begin()
            return own.end()
          })
        }
      })
    }
  })
}

/** A case, which may begin before the runner calls it. */
class Case {
  private outcome: Promise<void> | undefined

  constructor(private readonly body: () => Promise<void>) {}

  begin(): Promise<void> {
    if (!this.outcome) {
      this.outcome = this.body()
      // The runner gets a rejection from `end`.
      this.outcome.catch(() => undefined)
    }
    return this.outcome
  }

  /** Resolves with the case. Called again, the case runs again. */
  async end(): Promise<void> {
    try {
      await this.begin()
    } finally {
      this.outcome = undefined
    }
  }
}
