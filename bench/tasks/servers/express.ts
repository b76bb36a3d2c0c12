import { createServer } from 'node:http'
import express from 'express'
import { subject } from '../../frame/subject.js'
import { accept, acceptedHeaders, find, statusHeaders } from '../flow.js'
import type { Input } from '../work.js'

const app = express()
app.use(express.json())

app.post('/reports', (req, res) => {
  const task = accept(req.body as Input)
  res.status(202).set(acceptedHeaders(task)).json(task)
})

app.get('/tasks/:id', (req, res) => {
  const task = find(req.params.id)
  if (!task) {
    res.status(404).json({ error: 'There is no such task.', code: 'task_not_found' })
    return
  }
  res.set(statusHeaders(task)).json(task)
})

subject(createServer(app))
