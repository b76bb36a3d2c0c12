import { createServer } from 'node:http'
import express from 'express'
import { createTasks, defineTask, taskEndpoints } from 'longhaul'
import { memory } from 'longhaul/memory'
import { toNode } from 'longhaul/node'
import { subject } from '../../frame/subject.js'
import { doWork, type Input } from '../work.js'

const report = defineTask({ name: 'report', maxPerOwner: Infinity, run: (input: Input) => doWork(input) })
const tasks = createTasks({ ...memory(), definitions: [report] })
const { submit, status } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })

const app = express()
app.post('/reports', toNode(submit(report)))
app.all('/tasks/:id', toNode(status))
subject(createServer(app))
