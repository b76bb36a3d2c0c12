const STATE = Symbol.for('longhaul.openTasks')

interface State { open: number, isStopping: boolean }

/** One for all copies of this package in a process, because a process stops as a whole. */
const state: State = ((globalThis as { [STATE]?: State })[STATE] ??= { open: 0, isStopping: false })

/** Returns true once all tasks of the process have been closed, until others are created. */
export function isStopping(): boolean {
  return state.isStopping
}

export function noteOpened(): void {
  state.open++
  state.isStopping = false
}

export function noteClosed(): void {
  state.open--
  state.isStopping = state.open === 0
}
