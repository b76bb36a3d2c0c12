import { setTimeout } from 'node:timers/promises'

/** Time for which the work awaits a timer, in milliseconds. Default 0: it is trivial, because the benchmark measures the handling around it. */
export const WORK_MS = Number(process.env['WORK_MS'] ?? 0)

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
  if (WORK_MS > 0) await setTimeout(WORK_MS)
  return { message: `The report for ${input.month} is ready.`, rows: 1000 + input.recipients.length }
}
