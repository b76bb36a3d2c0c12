import { callbacks } from '../../../src/callbacks/index.js'
import { fileSource, folderSource } from '../../../adapters/files/index.js'
import { toFastify } from '../../../adapters/fastify/index.js'
import { toFetch } from '../../../adapters/fetch/index.js'
import { toKoa } from '../../../adapters/koa/index.js'
import { memory } from '../../../adapters/memory/index.js'
import { toNode } from '../../../adapters/node/index.js'
import { postgres } from '../../../adapters/postgres/index.js'
import { RedisStore } from '../../../adapters/redis/store.js'
import { refuses, type Loose } from '../kit/refuses.js'

const make = {
  callbacks,
  fileSource,
  folderSource,
  memory,
  postgres,
  toFastify,
  toFetch,
  toKoa,
  toNode,
  RedisStore: (options: never) => new RedisStore(options),
} as unknown as Record<
  | 'callbacks'
  | 'fileSource'
  | 'folderSource'
  | 'memory'
  | 'postgres'
  | 'toFastify'
  | 'toFetch'
  | 'toKoa'
  | 'toNode'
  | 'RedisStore',
  Loose
>
const handler = () => undefined
const client = { evalsha: handler, duplicate: handler }

refuses([
  [() => make.RedisStore(), 'redis: pass options, such as { client }'],
  [() => make.RedisStore({ client, namespce: 'x' }), 'redis: there is no option "namespce"; did you mean "namespace"?'],
  [
    () => make.RedisStore({ client, namespace: 'a:b' }),
    'redis: namespace must be 1 to 64 of A-Z a-z 0-9 . _ -, not "a:b"',
  ],
  [() => make.fileSource(), 'fileSource: path must be a string, such as /srv/export.csv'],
  [() => make.folderSource(), 'folderSource: folder must be a string, such as /srv/files'],
  [() => make.toNode(), 'Pass a handler, such as submit(report) or status of taskEndpoints, not undefined'],
  [
    () => make.toFetch({ submit: handler }),
    'Pass a handler, such as submit(report) or status of taskEndpoints, not object',
  ],
  [() => make.memory(null), 'memory: pass options, such as { maxUnfinished }'],
  [() => make.memory({ maxtasks: 1 }), 'memory: there is no option "maxtasks"; did you mean "maxTasks"?'],
  [() => make.memory({ maxUnfinished: 5, redis: 'x' }), 'memory: there is no option "redis".'],
  [() => make.postgres(), 'postgres: pass options, such as { pool }'],
  [
    () => make.postgres({ query: handler, connect: handler }),
    'postgres: pass the pool as an option: postgres({ pool })',
  ],
  [
    () => make.postgres({ pool: 'postgres://db/shop' }),
    'postgres: pool must be a pg.Pool, such as new pg.Pool({ connectionString })',
  ],
  [
    () => make.postgres({ pool: { connect: handler, on: handler }, schema: 'My' }),
    'postgres: schema must be 1 to 40 characters of a-z, 0-9 and _, without a digit at the start, not "My"',
  ],
  [() => make.toNode(handler, { port: 3000, mountPath: '' }), 'toNode: there is no option "port".'],
  [
    () => make.memory({ blobs: { maxbytes: 1 } }),
    'MemoryBlobs: there is no option "maxbytes"; did you mean "maxBytes"?',
  ],
  [() => make.callbacks(), 'callbacks: pass options, such as { secrets }'],
  [
    () => make.callbacks({ secrets: () => [], sendr: 1 }),
    'callbacks: there is no option "sendr"; did you mean "sender"?',
  ],
  [
    () => make.toNode(handler, { mountpath: '/x' }),
    'toNode: there is no option "mountpath"; did you mean "mountPath"?',
  ],
  [
    () => make.toFetch(handler, { mountpath: '/x' }),
    'toFetch: there is no option "mountpath"; did you mean "mountPath"?',
  ],
  [() => make.toKoa(handler, { onerror: handler }), 'toKoa: there is no option "onerror"; did you mean "onError"?'],
  [
    () => make.toFastify(handler, { onerror: handler }),
    'toFastify: there is no option "onerror"; did you mean "onError"?',
  ],
])
