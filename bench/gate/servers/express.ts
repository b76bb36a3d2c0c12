import { createServer } from 'node:http'
import express from 'express'
import { toNode } from 'longhaul/node'
import { subject } from '../../frame/subject.js'
import { handler } from './application.js'

const app = express()
app.use(toNode(handler))
subject(createServer(app))
