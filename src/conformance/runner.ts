/** Test runner. The modules of node:test, vitest, jest and mocha have this shape. */
export interface Runner {
  /** Registers a group of tests. Calls `body` synchronously. */
  describe(name: string, body: () => void): unknown
  /** Registers one test. It fails if its promise rejects. */
  it(name: string, body: () => Promise<void>): unknown
}

/** Tests by title. */
export type Cases<Context> = Readonly<Record<string, (context: Context) => Promise<void>>>

/** Registers every case with the runner. Each case gets its own context, which is always closed. */
export function register<Context extends { end(): Promise<void> }>(
  runner: Runner,
  title: string,
  groups: Readonly<Record<string, Cases<Context>>>,
  open: () => Promise<Context>,
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
