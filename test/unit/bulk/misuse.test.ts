import { bulkCreate } from '../../../src/bulk/create.js'
import { bulkUpdate } from '../../../src/bulk/update.js'
import { memory } from '../../../adapters/memory/index.js'
import { refuses, type Loose } from '../kit/refuses.js'

const make = { bulkCreate, bulkUpdate } as unknown as Record<'bulkCreate' | 'bulkUpdate', Loose>
const repository = { createMany: () => [], updateMany: () => [] }
const id = (item: { id: string }) => item.id
const background = make.bulkCreate({ repository, background: { name: 'a', blobs: memory().blobs } }) as { handler: Loose }
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
  [() => make.bulkCreate({ repository, blobs: 1 }), 'bulkCreate: there is no option "blobs".'],
  [() => make.bulkCreate({ repository, background: { name: 'a', timeout: 1 } }), 'bulkCreate: background: there is no option "timeout"; did you mean "timeoutMs"?'],
  [() => background.handler(), 'bulkCreate: handler needs what taskEndpoints returned'],
  [() => background.handler({ submit: id, status: id }), 'bulkCreate: handler needs what taskEndpoints returned'],
  [() => make.bulkUpdate({ repository, id, change, background: { name: 'a' } }), 'bulkUpdate: background.blobs is required'],
])
