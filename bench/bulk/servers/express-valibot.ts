import { valibotCheck } from '../checks.js'
import { listenExpress } from '../peers.js'

listenExpress(valibotCheck())
