/** Does work in the order of its calls, one after the other. */
export class Sequence {
  private last: Promise<unknown> = Promise.resolve()

  /** Does this work once all earlier work has ended. A failure does not prevent later work. */
  run<T>(work: () => Promise<T>): Promise<T> {
    const done = this.last.then(work)
    this.last = done.catch(() => undefined)
    return done
  }
}
