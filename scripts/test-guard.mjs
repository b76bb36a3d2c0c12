// Loaded into every test file's process: a file that does not end fails, and says what keeps it alive.
// (The runner's own --test-timeout guards single tests; from Node 24 on it no longer ends a file.)
import { readFileSync } from 'node:fs'

// Property tests draw the same values in every run, so that a run says the same everywhere; `npm run fuzz` draws new ones.
if (process.argv[1]?.endsWith('.test.ts') && readFileSync(process.argv[1], 'utf8').includes('\'fast-check\'')) {
  const { default: fc } = await import('fast-check')
  fc.configureGlobal({ seed: Number(process.env.LONGHAUL_SEED ?? 20_261_121) })
}

const limitMs = Number(process.env.LONGHAUL_TEST_FILE_TIMEOUT_MS)

if (process.env.NODE_TEST_CONTEXT !== undefined && limitMs > 0) {
  setTimeout(() => {
    console.error(`${process.argv[1]} has not ended after ${limitMs} ms. Still open: ${process.getActiveResourcesInfo().join(', ')}`)
    process.exit(1)
  }, limitMs).unref()
}
