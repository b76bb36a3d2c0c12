import { test } from 'node:test'
import { bulkCreate, bulkCreateTask } from '../../../src/bulk/create.js'
import { bulkUpdate } from '../../../src/bulk/update.js'
import { MemoryBlobs } from '../../../adapters/memory/index.js'
import { refuses, type Loose } from '../refuses.js'

const make = { bulkCreate, bulkUpdate, bulkCreateTask } as unknown as Record<'bulkCreate' | 'bulkUpdate' | 'bulkCreateTask', Loose>
const repository = { createMany: () => [], updateMany: () => [] }
const id = (item: { id: string }) => item.id
const change = (item: object) => item

refuses([
  [() => make.bulkCreate(), 'bulkCreate: pass options, such as { repository }'],
  [() => make.bulkCreate({}), 'bulkCreate: the repository needs createMany or create'],
  [() => make.bulkCreate({ repository, shema: {} }), 'bulkCreate: there is no option "shema"; did you mean "schema"?'],
  [() => make.bulkCreate({ repository, keys: id }), 'bulkCreate: there is no option "keys"; did you mean "key"?'],
  [() => make.bulkCreate({ repository, mail: 1 }), 'bulkCreate: there is no option "mail".'],
  [() => make.bulkUpdate(), 'bulkUpdate: pass options, such as { repository }'],
  [() => make.bulkUpdate({ id, change }), 'bulkUpdate: the repository needs updateMany or update'],
  [() => make.bulkUpdate({ repository, id, change, Atomic: true }), 'bulkUpdate: there is no option "Atomic"; did you mean "atomic"?'],
  [() => make.bulkCreateTask({ repository, name: 'a', timeout: 1 }), 'bulkCreateTask: there is no option "timeout"; did you mean "timeoutMs"?'],
])

test('a handler and its task take each other\'s options', () => {
  const blobs = new MemoryBlobs()
  const shared = { repository, id, blobs, name: 'a', keepMs: 5000, attempts: 1, timeoutMs: 5, maxInlineBytes: 1 }
  make.bulkCreate(shared)
  make.bulkUpdate({ ...shared, change })
  make.bulkCreateTask(shared)
})
