import Fastify from 'fastify'
import { fastifyLonghaul } from 'longhaul/fastify'
import { subject } from '../../frame/subject.js'
import { handler } from './application.js'

const app = Fastify()
await app.register(fastifyLonghaul, { handler })
await app.ready()
subject(app.server)
