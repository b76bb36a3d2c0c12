import { createServer } from 'node:http'
import express from 'express'
import fastify from 'fastify'
import { subject } from '../frame/subject.js'
import { bulkByHand, type Check } from './users.js'

/** A bulk create written by hand behind Express. */
export function listenExpress(check: Check): void {
  const app = express()
  app.use(express.json({ limit: '64mb' }))
  app.post('/users/bulk', (req, res) => {
    const { status, report } = bulkByHand(req.body, check, req.query['only'] === 'failed')
    res.status(status).json(report)
  })
  subject(createServer(app))
}

/** The same behind Fastify. */
export async function listenFastify(check: Check): Promise<void> {
  const app = fastify({ bodyLimit: 64 << 20 })
  app.post<{ Querystring: { only?: string } }>('/users/bulk', (request, reply) => {
    const { status, report } = bulkByHand(request.body, check, request.query.only === 'failed')
    return reply.code(status).send(report)
  })
  await app.ready()
  subject(app.server)
}
