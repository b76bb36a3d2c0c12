import { toNode } from 'longhaul/node'
import { listen } from '../../frame/subject.js'
import { handler } from './application.js'

listen(toNode(handler))
