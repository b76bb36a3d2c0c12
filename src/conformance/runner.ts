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
export type Cases<Bench> = Readonly<Record<string, (bench: Bench) => Promise<void>>>

/**
 * Registers every case with the runner, each with a bench of its own that is closed whatever
 * happens.
 */
export function register<Bench extends { end(): Promise<void> }>(
  runner: Runner, title: string, groups: Readonly<Record<string, Cases<Bench>>>, open: () => Promise<Bench>
): void {
  runner.describe(title, () => {
    for (const [group, cases] of Object.entries(groups)) {
      runner.describe(group, () => {
        for (const [name, body] of Object.entries(cases)) {
          runner.it(name, async () => {
            const bench = await open()
            try {
              await body(bench)
            } finally {
              await bench.end()
            }
          })
        }
      })
    }
  })
}
