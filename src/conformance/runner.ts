/**
 * What a suite needs of a test runner. The modules of node:test, vitest, jest and mocha are of this
 * shape.
 */
export interface Runner {
  /** Registers a group of tests; `body` is called at once. */
  describe(name: string, body: () => void): unknown
  /** Registers one test, which fails when its promise rejects. */
  it(name: string, body: () => Promise<void>): unknown
}

/** Tests by title. */
export type Cases<Context> = Readonly<Record<string, (context: Context) => Promise<void>>>

/**
 * Registers every case with the runner, each with a context of its own that is closed whatever
 * happens.
 */
export function register<Context extends { end(): Promise<void> }>(
  runner: Runner, title: string, groups: Readonly<Record<string, Cases<Context>>>, open: () => Promise<Context>
): void {
  runner.describe(title, () => {
    for (const [group, cases] of Object.entries(groups)) {
      runner.describe(group, () => {
        for (const [name, body] of Object.entries(cases)) {
          runner.it(name, async () => {
            const context = await open()
            try {
              await body(context)
            } finally {
              await context.end()
            }
          })
        }
      })
    }
  })
}
