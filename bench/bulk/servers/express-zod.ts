import { zodCheck } from '../checks.js'
import { listenExpress } from '../peers.js'

listenExpress(zodCheck())
