import { collection, cors, list } from '../../../src/resources/index.js'
import { jsonSchema } from '../../../src/schema/index.js'
import { refuses, type Loose } from '../refuses.js'

const make = { collection, cors, list } as unknown as Record<'collection' | 'cors' | 'list', Loose>
const repository = { list: () => ({ items: [] }) }
const schema = jsonSchema({ type: 'object' })

refuses([
  [() => make.cors(), 'cors: pass options, such as { origins }'],
  [() => make.cors({ origin: '*' }), 'cors: there is no option "origin"; did you mean "origins"?'],
  [() => make.list(), 'list: pass options, such as { repository }'],
  [() => make.list({ repository, batchsize: 5 }), 'list: there is no option "batchsize"; did you mean "batchSize"?'],
  [() => make.collection(), 'collection: pass options, such as { repository }'],
  [() => make.collection({ schema }), 'collection: pass a repository, with a method of list, create, get, replace, update, delete'],
  [() => make.collection({ repository, schema, requirePrecondition: true }), 'collection: there is no option "requirePrecondition"; did you mean "requirePreconditions"?'],
])
