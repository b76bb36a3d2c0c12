/** Bytes of the heap in use once garbage is gone. The program has to run with `--expose-gc`. */
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
 * Makes `count` things with `make`, `batch` at a time, each batch settled by `settle`, and tells the parent
 * how many bytes one of them holds.
 */
export async function tellHeld(count: number, batch: number, make: (index: number) => unknown, settle: () => Promise<void>): Promise<void> {
  // Code, shapes and pools are there before the count begins.
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
