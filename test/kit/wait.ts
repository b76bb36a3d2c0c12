// Waiting for what a test expects, with a limit, so that a fault cannot hang the run. The suites
// for engines wait likewise.
export { deferred, eventually, pause, within } from '../../conformance/wait.js'

/** Keeps the process alive until the test, or the file, has ended: timers of the library do not. */
export function keepAlive(scope: { after(work: () => void): unknown }): void {
  const timer = setInterval(() => undefined, 60_000)
  scope.after(() => { clearInterval(timer) })
}
