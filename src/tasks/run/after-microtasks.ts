/** Something that wants to know whether it outlives the turn that it began in. */
export interface Lasting {
  /** Is called once all microtasks of the turn have run, before anything else does. */
  turnOver(): void
}

let waiting: Lasting[] = []

/**
 * One call for all that begin in a turn: a timer, an immediate or a promise for each would cost
 * more than a short run.
 */
export function afterMicrotasks(each: Lasting): void {
  if (waiting.push(each) > 1) return
  // A tick that a microtask asks for comes after the last of them, and before the next event.
  queueMicrotask(() => { process.nextTick(tell) })
}

function tell(): void {
  const told = waiting
  waiting = []
  for (const each of told) each.turnOver()
}
