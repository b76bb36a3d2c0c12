import { ajvCheck } from '../checks.js'
import { listenExpress } from '../peers.js'

listenExpress(ajvCheck())
