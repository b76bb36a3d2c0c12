import { createHash } from 'node:crypto'
import { setImmediate as turn } from 'node:timers/promises'
import { defineTask, jsonSchema } from 'longhaul'
import { LARGE_FILE_BYTES, largeFile } from '../large-file.js'

/** Work for the processor: the SHA-256 of the large file, one chunk per turn of the event loop. */
export const checksum = defineTask({
  name: 'checksum',
  input: jsonSchema<object>({ type: 'object', additionalProperties: false }),
  async run(_input, { signal, progress }) {
    const hash = createHash('sha256')
    let done = 0
    for (const chunk of largeFile()) {
      hash.update(chunk)
      done += chunk.byteLength
      progress(done, LARGE_FILE_BYTES)
      // Other work runs here, and a cancel is noticed.
      await turn(undefined, { signal })
    }
    return { message: 'The large file was read to its end.', bytes: done, sha256: hash.digest('hex') }
  },
})
