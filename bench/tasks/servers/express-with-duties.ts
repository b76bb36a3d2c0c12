// Express by hand with the duties of longhaul; `express` is the same without them.
import { createServer } from 'node:http'
import express from 'express'
import { subject } from '../../frame/subject.js'
import { acceptedHeaders, statusHeaders } from '../flow.js'
import { accept, cancel, find, prefersAsync } from '../flow-with-duties.js'
import type { Input } from '../work.js'

const app = express()
app.use(express.json())
const missing = { error: 'There is no such task.', code: 'task_not_found' }

app.post('/reports', (req, res) => {
  // The direct answer is left out: the benchmark asks for the other one only.
  if (!prefersAsync(req.get('prefer'))) {
    res.status(501).end()
    return
  }
  const task = accept(req.body as Input)
  if (!task) res.status(503).set('retry-after', '5').json({ error: 'The queue is full.', code: 'queue_full' })
  else res.status(202).set(acceptedHeaders(task)).json(task)
})

app.get('/tasks/:id', (req, res) => {
  const task = find(req.params.id)
  // Express compares the entity tag with `If-None-Match`.
  if (task) res.set(statusHeaders(task)).json(task)
  else res.status(404).json(missing)
})

app.delete('/tasks/:id', (req, res) => {
  if (find(req.params.id)) res.status(cancel(req.params.id) ? 202 : 409).end()
  else res.status(404).json(missing)
})

subject(createServer(app))
