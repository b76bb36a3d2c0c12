import express from 'express'
import { listen } from '../../frame/subject.js'

const app = express()
app.disable('x-powered-by')
app.use(express.static(process.env['BENCH_FOLDER'] as string))
listen(app)
