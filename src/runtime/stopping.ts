const STATE = Symbol.for('longhaul.openTasks')

/** `stops`: number of times that all open tasks were closed. */
interface State { open: number, stops: number }

/**
 * There is one state for all copies of this package in a process, because a process stops as a
 * whole.
 */
const state: State = ((globalThis as { [STATE]?: State })[STATE] ??= { open: 0, stops: 0 })

/** Returns the number of times that all tasks of the process have been closed so far. */
export function stopsSoFar(): number {
  return state.stops
}

/**
 * Returns true if all tasks of the process have been closed, and none were created afterwards.
 *
 * @param since - `stopsSoFar()` when the server was made: an earlier stop does not concern this
 * server
 */
export function isStopping(since: number): boolean {
  return state.open === 0 && state.stops > since
}

export function noteOpened(): void {
  state.open++
}

export function noteClosed(): void {
  state.open--
  if (state.open === 0) state.stops++
}
