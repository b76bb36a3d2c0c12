import { createHash } from 'node:crypto'
import { defineTask } from 'longhaul'

/** Data up to this many bytes of JSON are in the result. */
const SHOWN_BYTES = 65_536

/** Accepts any job data (SPEC 4.7), and interprets nothing of it. Returns its size, its SHA-256 and the data. */
export const processJob = defineTask<unknown, { message: string }>({
  name: 'process-job',
  run: (data) => {
    const text = JSON.stringify(data)
    const bytes = Buffer.byteLength(text)
    const sha256 = createHash('sha256').update(text).digest('hex')
    return { message: `Processed ${bytes} bytes of job data.`, bytes, sha256, ...bytes <= SHOWN_BYTES && { data } }
  },
})
