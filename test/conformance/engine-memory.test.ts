import * as runner from 'node:test'
import { engineConformance, type EngineFixture, type EngineSettings } from 'longhaul/conformance'
import { MemoryTaskEngine } from '../../adapters/memory/engine.js'
import { comparesWithModel } from './engine-oracle.js'

async function open({ capacity, share }: EngineSettings): Promise<EngineFixture> {
  const engine = new MemoryTaskEngine({
    ...capacity !== undefined && { maxUnfinished: capacity },
    ...share && { maxEntriesPerOwner: share.tasks, maxBytesPerOwner: share.bytes },
  })
  return { open: async () => ({ engine }), close: () => engine.close({ drainMs: 0 }) }
}

engineConformance(runner, open, {
  title: 'MemoryTaskEngine', isShared: false, isBounded: true, leaseMs: 1000,
})

comparesWithModel(runner, open)
