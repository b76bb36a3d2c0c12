import { defineTask } from 'longhaul'

/** A task that writes one file, and another one with this content. */
export function writing(content: () => AsyncIterable<Uint8Array>) {
  return defineTask({
    name: 'writing', files: true, attempts: 2, backoff: { type: 'fixed', delayMs: 10 },
    run: async (_, { files, attempt }) => {
      await files.write('first.txt', `attempt ${attempt}`)
      await files.write('second.bin', content())
    },
  })
}
