// The flow of bench/tasks in Express, behind policies by hand and express-rate-limit.
import { createHash, timingSafeEqual } from 'node:crypto'
import { createServer } from 'node:http'
import express from 'express'
import { rateLimit } from 'express-rate-limit'
import { subject } from '../../frame/subject.js'
import { accept, acceptedHeaders } from '../../tasks/flow.js'
import type { Input } from '../../tasks/work.js'
import { TOKEN } from '../flow.js'

const digest = (text: string): Buffer => createHash('sha256').update(text).digest()
const known = digest(TOKEN)

const app = express()
app.use((req, res, next) => {
  const token = /^Bearer (.+)$/i.exec(req.headers.authorization ?? '')?.[1]
  if (token !== undefined && timingSafeEqual(digest(token), known)) next()
  else res.status(401).set('www-authenticate', 'Bearer').json({ error: 'Valid credentials are required.', code: 'unauthorized' })
})
app.use(rateLimit({ windowMs: 3_600_000, limit: 1_000_000_000, standardHeaders: 'draft-8', legacyHeaders: false, keyGenerator: () => 'ann' }))
app.use((req, res, next) => {
  const { version = '2' } = req.query
  if (version === '1' || version === '2') next()
  else res.status(400).json({ error: 'This version is not served.', code: 'version_unsupported' })
})
app.use(express.json())
app.post('/reports', (req, res) => {
  const task = accept(req.body as Input)
  res.status(202).set({ ...acceptedHeaders(task), 'api-supported-versions': '2', 'api-deprecated-versions': '1' }).json(task)
})

subject(createServer(app))
