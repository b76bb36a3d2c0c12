import { defineTask, jsonSchema } from 'longhaul'

/** An export of the examples in this folder. Its result is a file. */
export const sales = defineTask({
  name: 'sales',
  input: jsonSchema<{ year: number }>({ type: 'object', required: ['year'], properties: { year: { type: 'integer' } } }),
  files: true,
  async run({ year }, { files }) {
    const { size } = await files.write('sales.csv', rows(year), { type: 'text/csv' })
    return { message: `The sales of ${year} are ready.`, bytes: size }
  },
})

/** The rows are written as they come, so there may be more of them than memory holds. */
function* rows(year: number): Generator<string> {
  yield 'month,total\n'
  for (let month = 1; month <= 12; month++) yield `${year}-${String(month).padStart(2, '0')},${month * 100}\n`
}
