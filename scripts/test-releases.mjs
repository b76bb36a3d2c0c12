// Ends the databases and servers of a test file after everything that uses them.
import { after } from 'node:test'

/** Releases of this process, in the order of their registration. `undefined` if the file runs without scripts/test.mjs. */
let releases

/** Call once in a process, outside of the suites of its files: a hook there runs after all hooks of the files. */
export function releaseAfterFiles() {
  const all = []
  releases = all
  after(async () => {
    for (const release of all.reverse()) {
      try {
        await release()
      } catch (error) {
        // The runner does not report errors of this hook.
        console.error(error)
        process.exitCode = 1
      }
    }
  })
}

/**
 * Calls `release` after all hooks of the file, what was registered last first. Hooks of `after` run in the order of
 * their registration: a database would be dropped before a later hook has stopped the worker that uses it.
 *
 * @param {() => unknown} release
 */
export function releaseLast(release) {
  if (releases === undefined) after(async () => { await release() })
  else releases.push(release)
}
