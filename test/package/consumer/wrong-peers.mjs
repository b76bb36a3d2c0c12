// Runs beside versions of optional peers that are too old: an entry point says so in one sentence.
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import 'reflect-metadata'
import { fastify } from 'fastify'

const require = createRequire(import.meta.url)
const version = (name) => require(`${name}/package.json`).version

const TOO_OLD = [
  ['longhaul/cron', 'croner', '6 or later'],
  ['longhaul/nestjs', '@nestjs/common', '8 or later'],
  ['longhaul/opentelemetry', '@opentelemetry/api', '1.3 or a later 1']
]
for (const [entry, name, works] of TOO_OLD) {
  const message = `${entry} works with ${name} ${works}, not with ${name} ${version(name)}`
  await assert.rejects(import(entry), { name: 'TypeError', message })
  assert.throws(() => require(entry), { name: 'TypeError', message })
}

for (const { fastifyLonghaul, toFastify } of [await import('longhaul/fastify'), require('longhaul/fastify')]) {
  const app = fastify()
  app.register(fastifyLonghaul, { prefix: '/api', handler: () => undefined })
  await assert.rejects(app.ready(), { message: `fastify-plugin: longhaul - expected '>=4.24' fastify version, '${app.version}' is installed` })
  const errors = []
  const routes = fastify().setErrorHandler(async (error) => { errors.push(error.message); return 'no' })
  routes.get('/', toFastify(() => undefined))
  await routes.inject('/')
  assert.deepEqual(errors, [`longhaul/fastify works with fastify 4.24 or later, not with fastify ${routes.version}`])
}
