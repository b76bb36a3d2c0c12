/** What ends sooner needs no timer, no listener and no subscription of its own. In milliseconds. */
export const SHORT_MS = 20

/** Something that mostly ends soon. */
export interface Short {
  /** It has ended, and is not told any more. */
  readonly over: boolean
  /** Is called once it has gone on for 20 to 40 ms. */
  outlast(): void
}

/** Those that began in this period, and those of the one before it. */
let young: Short[] = []
let old: Short[] = []
let timer: ReturnType<typeof setTimeout> | undefined
let armedAt = 0

/**
 * A timer that has not come for so long never will: it was made under a test's fake timers, which
 * are gone. In milliseconds.
 */
const LOST_MS = 1000

/**
 * One timer for all that begin: to make and clear one for each costs more than much that is short.
 */
export function afterShort(each: Short): void {
  young.push(each)
  if (timer === undefined || Math.abs(performance.now() - armedAt) > LOST_MS) arm()
}

function arm(): void {
  clearTimeout(timer)
  armedAt = performance.now()
  timer = setTimeout(turn, SHORT_MS).unref()
}

function turn(): void {
  const lasting = old
  old = young.filter((each) => !each.over)
  young = []
  timer = undefined
  if (old.length > 0) arm()
  for (const each of lasting) if (!each.over) each.outlast()
}
