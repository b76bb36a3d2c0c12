/** The work of all servers. It is trivial, because the benchmark measures the handling around it. */
export interface Input {
  readonly month: string
  readonly recipients: readonly string[]
}

export interface Result {
  readonly message: string
  readonly rows: number
}

export const BODY = JSON.stringify({
  report: 'monthly-sales', month: '2026-10', format: 'csv', recipients: ['ada@example.org', 'grace@example.org'],
})

export async function doWork(input: Input): Promise<Result> {
  return { message: `The report for ${input.month} is ready.`, rows: 1000 + input.recipients.length }
}
