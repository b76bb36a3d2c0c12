import { valibotCheck } from '../checks.js'
import { listenFastify } from '../peers.js'

await listenFastify(valibotCheck())
