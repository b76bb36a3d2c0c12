/** Returns the used bytes of the heap after garbage collection. The program must run with `--expose-gc`. */
export async function settledHeap(): Promise<number> {
  if (globalThis.gc === undefined) throw new Error('run this program with --expose-gc')
  let last = Infinity
  for (let tries = 0; tries < 10; tries++) {
    globalThis.gc()
    await new Promise((resolve) => setTimeout(resolve, 50))
    const { heapUsed, external } = process.memoryUsage()
    const now = heapUsed + external
    if (now >= last - 1024) return Math.min(now, last)
    last = now
  }
  return last
}

/**
 * Creates `count` objects with `make`, `batch` at a time. Calls `settle` after each batch. Reports to the parent
 * how many bytes of the heap one of them holds.
 */
export async function tellHeld(count: number, batch: number, make: (index: number) => unknown, settle: () => Promise<void>): Promise<void> {
  // Compiles the code and fills pools before the count starts.
  for (let index = 0; index < batch; index++) await make(-1 - index)
  await settle()
  const before = await settledHeap()
  for (let index = 0; index < count; index++) {
    await make(index)
    if (index % batch === batch - 1) await settle()
  }
  await settle()
  process.send?.({ bytes: (await settledHeap() - before) / count })
}
