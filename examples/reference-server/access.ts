import { json, type Handler } from 'longhaul'
import { describe, operation, response } from 'longhaul/openapi'
import type { Context } from './auth.js'

const SCHEMA = {
  type: 'object', required: ['operator'],
  properties: { operator: { type: 'boolean' }, message: { type: 'string', description: 'Why the view of operators is closed' } },
} as const

/** GET /api/access: says to the console whether the client is an operator. */
export const access: Handler<Context> = describe<Context>(({ context }) => {
  const operator = context.principal?.role === 'admin'
  const message = 'This view needs a token with the role admin.'
  return json(200, operator ? { operator } : { operator, message }, { 'cache-control': 'no-store' })
}, [operation('GET', {
  summary: 'Whether the client is an operator, for the console',
  responses: { 200: response('What the client may see', { schema: SCHEMA }) },
})])
