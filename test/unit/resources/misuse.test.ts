import { METHODS } from 'node:http'
import { test } from 'node:test'
import { collection } from '../../../src/resources/collection.js'
import { cors } from '../../../src/resources/cors.js'
import { list } from '../../../src/resources/list.js'
import { resource } from '../../../src/resources/methods.js'
import { router } from '../../../src/resources/router.js'
import { jsonSchema } from '../../../src/schema/json-schema.js'
import { refuses, type Loose } from '../kit/refuses.js'

const make = { collection, cors, list, resource, router } as unknown as Record<
  'collection' | 'cors' | 'list' | 'resource' | 'router',
  Loose
>
const handler = () => undefined
const USUAL = 'The usual ones are GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, TRACE, CONNECT, QUERY'
const repository = { list: () => ({ items: [] }) }
const schema = jsonSchema({ type: 'object' })

refuses([
  [
    () => make.router({ 'PSOT /x': handler }),
    `router: the route "PSOT /x": PSOT is no registered method; did you mean POST? ${USUAL}`,
  ],
  [
    () => make.router({ 'GET|BREW /x': handler }),
    `router: the route "GET|BREW /x": BREW is no registered method. ${USUAL}`,
  ],
  [() => make.resource({ DELET: handler }), `resource: DELET is no registered method; did you mean DELETE? ${USUAL}`],
  [() => make.cors(), 'cors: pass options, such as { origins }'],
  [() => make.cors({ origin: '*' }), 'cors: there is no option "origin"; did you mean "origins"?'],
  [() => make.list(), 'list: pass options, such as { repository }'],
  [() => make.list({ repository, batchsize: 5 }), 'list: there is no option "batchsize"; did you mean "batchSize"?'],
  [() => make.collection(), 'collection: pass options, such as { repository }'],
  [
    () => make.collection({ schema }),
    'collection: the option repository is missing; it must be an object with methods such as list(page, call)',
  ],
  [
    () => make.collection({ repository, schema, requirePrecondition: true }),
    'collection: there is no option "requirePrecondition"; did you mean "requirePreconditions"?',
  ],
])

test('methods of the IANA registry and those of Node may have routes', () => {
  router({ 'PROPFIND|QUERY|M-SEARCH|PURGE /x': handler })
})

test('the registry contains every method that Node\'s parser accepts', () => {
  for (const method of METHODS) router({ [`${method} /x`]: handler })
})
