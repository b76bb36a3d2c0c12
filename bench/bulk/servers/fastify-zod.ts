import { zodCheck } from '../checks.js'
import { listenFastify } from '../peers.js'

await listenFastify(zodCheck())
