import { Inject, Injectable } from '@nestjs/common'
import { defineTask, jsonSchema } from 'longhaul'
import { SalesService } from './sales.service.js'

@Injectable()
export class ReportTask {
  constructor(@Inject(SalesService) private readonly sales: SalesService) {}

  readonly definition = defineTask({
    name: 'report',
    input: jsonSchema<{ year: number }>({
      type: 'object', required: ['year'], properties: { year: { type: 'integer' } },
    }),
    run: async ({ year }, { progress, signal }) => {
      let sold = 0
      for (let month = 1; month <= 12; month++) {
        sold += await this.sales.ofMonth(year, month, signal)
        progress(month, 12)
      }
      return { message: `The report of ${year} is ready.`, sold }
    },
  })
}
