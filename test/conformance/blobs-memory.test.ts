import * as runner from 'node:test'
import { blobsConformance } from 'longhaul/conformance'
import { MemoryBlobs } from 'longhaul/memory'

const MIB = 1024 * 1024

blobsConformance(runner, async () => ({ blobs: new MemoryBlobs() }), { title: 'MemoryBlobs' })

blobsConformance(runner, async () => {
  let time = 1_700_000_000_000
  const blobs = new MemoryBlobs({ now: () => time, maxBytes: 2 * MIB })
  return { blobs, now: () => time, advance: (ms) => { time += ms }, capacity: 2 * MIB }
}, { title: 'MemoryBlobs with little room and a clock that jumps' })
