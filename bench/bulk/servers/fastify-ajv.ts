import { ajvCheck } from '../checks.js'
import { listenFastify } from '../peers.js'

await listenFastify(ajvCheck())
