import { memoryEngine } from './engines.js'
import { filesSuite } from './suite.js'

filesSuite('memory', memoryEngine)
