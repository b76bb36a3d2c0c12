// JWKS_URL=https://login.example/jwks.json ISSUER=https://login.example AUDIENCE=api npx tsx examples/jwt/main.ts
// curl -i -H "Authorization: Bearer $TOKEN" -H 'Prefer: respond-async' --json '{"year": 2025}' http://127.0.0.1:3000/reports
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { compose, createTasks, router, taskEndpoints } from 'longhaul'
import { memory } from 'longhaul/memory'
import { toNode } from 'longhaul/node'
import { authenticate } from 'longhaul/policies'
import { report } from '../report.js'
import { jwt } from './scheme.js'

const { JWKS_URL: keys, ISSUER: issuer, AUDIENCE: audience } = process.env
if (!keys || !issuer || !audience) {
  console.error('Set JWKS_URL, ISSUER and AUDIENCE to those of your OpenID Connect provider.')
  process.exit(1)
}

const tasks = createTasks({ ...memory(), definitions: [report] })
const { submit, status } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'principal' })
const handler = compose(
  authenticate({ schemes: [jwt({ keys, issuer, audience })] }),
  router({ 'POST /reports': submit(report), 'GET|HEAD|DELETE /tasks/{id}': status }),
)
const server = createServer(toNode(handler)).listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1', () => {
  console.log(`Ready at http://127.0.0.1:${(server.address() as AddressInfo).port}`)
})
