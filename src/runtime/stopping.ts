const STATE = Symbol.for('longhaul.stopping')

interface State { isStopping: boolean }

/** One for all copies of this package in a process, because a process stops as a whole. */
const state: State = ((globalThis as { [STATE]?: State })[STATE] ??= { isStopping: false })

/** Returns true once tasks have been closed, until others are created. */
export function isStopping(): boolean {
  return state.isStopping
}

export function setStopping(isStopping: boolean): void {
  state.isStopping = isStopping
}
