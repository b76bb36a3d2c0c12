import { createHash } from 'node:crypto'
import { defineTask, jsonSchema } from 'longhaul'

/** Data up to this many bytes of JSON are in the result. */
const SHOWN_BYTES = 65_536

/** Accepts any job data (SPEC 4.7), and interprets nothing of it. Returns its size, its SHA-256 and the data. */
export const processJob = defineTask<unknown, { message: string }>({
  name: 'process-job',
  output: jsonSchema<{ message: string }>({
    title: 'Processed job', type: 'object',
    required: ['message', 'bytes', 'sha256'],
    properties: {
      message: { type: 'string' }, bytes: { type: 'integer' },
      sha256: { type: 'string', description: 'Hexadecimal digits' },
      data: { description: `The job data, up to ${SHOWN_BYTES} bytes` },
    },
  }),
  run: (data) => {
    const text = JSON.stringify(data)
    const bytes = Buffer.byteLength(text)
    const sha256 = createHash('sha256').update(text).digest('hex')
    return { message: `Processed ${bytes} bytes of job data.`, bytes, sha256, ...bytes <= SHOWN_BYTES && { data } }
  },
})
