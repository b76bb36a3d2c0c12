// The accept flow alone.
import { toNode } from 'longhaul/node'
import { listen } from '../../frame/subject.js'
import { flow } from '../flow.js'

listen(toNode(flow().handler))
