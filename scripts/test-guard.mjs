// Loaded into the process of every test file. A file that does not end fails, and the error lists what keeps it alive.
// (The runner's own --test-timeout guards single tests; from Node 24 on it no longer ends a file.)
import { readFileSync } from 'node:fs'

// Property tests use the same values in every run, so that results are reproducible. `npm run fuzz` uses new ones.
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
