// Types of tasks in front of a BullMQ queue, with both majors of BullMQ. Compiled by `npm run types`.
import { Queue, QueueEvents } from 'bullmq'
import { Queue as Queue5, QueueEvents as QueueEvents5 } from 'bullmq5'
import { expectTypeOf } from 'expect-type'
import { createTasks, type NameOf } from 'longhaul'
import { bullmqTask } from 'longhaul/bullmq'
import type { InputOf, ResultOf } from 'longhaul/client'
import { memory } from 'longhaul/memory'
import { z } from 'zod'

interface Data { readonly year: number }
interface Result { readonly pages: number }

const input = z.object({ year: z.coerce.number<string | number>() })
const queue = new Queue<Data, Result>('reports')
const queue5 = new Queue5<Data, Result>('reports')
const events = new QueueEvents('reports')
const events5 = new QueueEvents5('reports')

/** Schemas type the input and the result. */
export async function schemas(): Promise<void> {
  const report = bullmqTask({
    name: 'report', queue: new Queue('reports'), events, input, output: z.object({ months: z.array(z.number()) }),
    data: ({ year }, { owner }) => {
      expectTypeOf(year).toEqualTypeOf<number>()
      expectTypeOf(owner).toEqualTypeOf<string | undefined>()
      return { year, owner }
    },
  })
  expectTypeOf<InputOf<typeof report>>().toEqualTypeOf<{ year: string | number }>()
  expectTypeOf<ResultOf<typeof report>>().toEqualTypeOf<{ months: number[] }>()
  expectTypeOf<NameOf<typeof report>>().toEqualTypeOf<'report'>()
  const tasks = createTasks({ ...memory(), definitions: [report] })
  const end = await (await tasks.submit(report, { year: '2025' })).wait({ timeoutMs: 1 })
  if (end?.status === 'completed') expectTypeOf(end.result.months).toEqualTypeOf<number[]>()
  // @ts-expect-error a year is a number or a string
  await tasks.submit(report, { year: true })
}

/** Without `output`, the result is that of the queue. */
export const report = bullmqTask({ name: 'report', queue, events, input, jobOptions: { attempts: 3 } })
export const report5 = bullmqTask({
  name: 'report',
  queue: queue5,
  events: events5,
  input,
  jobOptions: { priority: 3 },
})
export const untyped = bullmqTask({ name: 'report', queue: new Queue5('reports'), events: events5 })
expectTypeOf<ResultOf<typeof report>>().toEqualTypeOf<Result>()
expectTypeOf<ResultOf<typeof report5>>().toEqualTypeOf<Result>()
expectTypeOf<ResultOf<typeof untyped>>().toEqualTypeOf<unknown>()

/** What does not compile. */
export function mistakes(): void {
  // @ts-expect-error the id of a job is that of its task
  bullmqTask({ name: 'report', queue, events, jobOptions: { jobId: 'mine' } })
  // @ts-expect-error a job that is removed at its end has no result
  bullmqTask({ name: 'report', queue: queue5, events: events5, jobOptions: { removeOnComplete: true } })
  // @ts-expect-error there is no such option of a job
  bullmqTask({ name: 'report', queue, events, jobOptions: { retries: 1 } })
  // @ts-expect-error a queue is required
  bullmqTask({ name: 'report', events })
  // @ts-expect-error there is no such option
  bullmqTask({ name: 'report', queue, events, files: true })
}
