import { createHash } from 'node:crypto'
import { defineTask } from 'longhaul'

/** Data up to this many bytes of JSON are in the result. */
const SHOWN_BYTES = 65_536

/** SPEC 4.7 leaves open what job data is: this takes any. Counts its bytes, takes its SHA-256, and shows what arrived. */
export const processJob = defineTask<unknown, { message: string }>({
  name: 'process-job',
  run: (data) => {
    const text = JSON.stringify(data)
    const bytes = Buffer.byteLength(text)
    const sha256 = createHash('sha256').update(text).digest('hex')
    return { message: `Processed ${bytes} bytes of job data.`, bytes, sha256, ...bytes <= SHOWN_BYTES && { data } }
  },
})
