import * as runner from 'node:test'
import { storeConformance } from 'longhaul/conformance'
import { MemoryStore } from '../../adapters/memory/store.js'

storeConformance(
  runner,
  async () => ({ store: new MemoryStore({ maxEntriesPerOwner: 20, maxBytesPerOwner: 16_000 }) }),
  {
    title: 'MemoryStore',
    callerShare: { entries: 20, bytes: 16_000 },
  },
)

storeConformance(runner, async () => {
  let time = 1_700_000_000_000
  return { store: new MemoryStore({ now: () => time }), now: () => time, advance: (ms) => { time += ms } }
}, { title: 'MemoryStore with a clock that jumps' })

storeConformance(runner, async () => ({ store: new MemoryStore({ maxEntries: 120 }) }), {
  title: 'MemoryStore with little room',
})
