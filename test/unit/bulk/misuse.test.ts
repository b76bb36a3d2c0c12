import { bulkCreate } from '../../../src/bulk/create.js'
import { bulkUpdate } from '../../../src/bulk/update.js'
import { bulkItems } from '../../../src/bulk/items.js'
import { compose } from '../../../src/http/exchange.js'
import { router } from '../../../src/resources/router.js'
import { memory } from '../../../adapters/memory/index.js'
import { toNode } from '../../../adapters/node/index.js'
import { refuses, type Loose } from '../kit/refuses.js'

const make = { bulkCreate, bulkItems, bulkUpdate } as unknown as Record<
  'bulkCreate' | 'bulkItems' | 'bulkUpdate',
  Loose
>
const inHandler = '; an endpoint with background has its handler in .handler(endpoints)'
const repository = { createMany: () => [], updateMany: () => [] }
const id = (item: { id: string }) => item.id
const background = make.bulkCreate({ repository, background: { name: 'a', blobs: memory().blobs } }) as {
  handler: Loose
}
const change = (item: object) => item

refuses([
  [() => make.bulkCreate(), 'bulkCreate: pass options, such as { repository }'],
  [() => make.bulkCreate({}), 'bulkCreate: the repository needs createMany or create'],
  [() => make.bulkCreate({ repository, shema: {} }), 'bulkCreate: there is no option "shema"; did you mean "schema"?'],
  [() => make.bulkCreate({ repository, keys: id }), 'bulkCreate: there is no option "keys"; did you mean "key"?'],
  [() => make.bulkCreate({ repository, mail: 1 }), 'bulkCreate: there is no option "mail".'],
  [() => make.bulkUpdate(), 'bulkUpdate: pass options, such as { repository }'],
  [() => make.bulkUpdate({ id, change }), 'bulkUpdate: the repository needs updateMany or update'],
  [
    () => make.bulkUpdate({ repository, id, change, Atomic: true }),
    'bulkUpdate: there is no option "Atomic"; did you mean "atomic"?',
  ],
  [() => make.bulkCreate({ repository, blobs: 1 }), 'bulkCreate: there is no option "blobs".'],
  [
    () => make.bulkCreate({ repository, background: { name: 'a', timeout: 1 } }),
    'bulkCreate: background: there is no option "timeout"; did you mean "timeoutMs"?',
  ],
  [() => background.handler(), 'bulkCreate: handler needs what taskEndpoints returned'],
  [() => background.handler({ submit: id, status: id }), 'bulkCreate: handler needs what taskEndpoints returned'],
  [() => make.bulkItems(), 'bulkItems: pass options, such as { endpoints }'],
  [
    () => make.bulkItems({ blobs: memory().blobs }),
    'bulkItems: the option endpoints is missing; it must be what taskEndpoints returned',
  ],
  [
    () => make.bulkItems({ endpoints: { find: id } }),
    'bulkItems: the option blobs is missing; it must be the blobs of the task',
  ],
  [
    () => make.bulkItems({ endpoints: { find: id }, blobs: memory() }),
    'bulkItems: blobs must be the blobs of the task, not an object',
  ],
  [
    () => make.bulkCreate({ repository, background: { name: 'a', blobs: memory() } }),
    'bulkCreate: background.blobs must be blobs, such as those of memory()',
  ],
  [
    () => toNode(background as never),
    `Pass a handler, such as submit(report) or status of taskEndpoints, not object${inHandler}`,
  ],
  [
    () => router({ 'POST /x': background as never }),
    `router: the route "POST /x" needs a handler, a function${inHandler}`,
  ],
  [
    () => compose(background as never),
    `compose takes policies and, last, a handler; argument 1 is not a function${inHandler}`,
  ],
  [
    () => make.bulkUpdate({ repository, id, change, background: { name: 'a' } }),
    'bulkUpdate: background.blobs is required',
  ],
])
