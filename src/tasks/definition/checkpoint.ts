/**
 * One JSON value that outlives a run of a task. The next run of the task reads it and continues
 * from there. `P` is the type of the value: the output of the schema `checkpoint` of `defineTask`.
 */
export interface Checkpoint<P = unknown> {
  /**
   * The value that an earlier run of this task saved last. `undefined` if there is none. It does
   * not change during a run.
   */
  readonly value: P | undefined
  /**
   * Saves a value in place of the earlier one. Resolves when the store has it. Calls are written
   * one after the other.
   *
   * If the run has been stopped, stores the value and then rejects with the reason of `signal`.
   * While the store is unavailable, retries for up to 30 seconds.
   *
   * @throws {TypeError} The value is not JSON, is longer than 64 KiB as JSON, or the definition has
   * no `checkpoint`.
   * @throws {HttpError} 409 `attempt_replaced`: another run of the task has begun or the task has
   * ended. Nothing was saved, and the signal of this run aborts.
   * @throws {StoreUnavailableError} The store did not answer in time. The value may be saved.
   */
  save(value: P): Promise<void>
}
