import { memoryEngine } from '../../kit/file-engines.js'
import { filesSuite } from './suite.js'

filesSuite('memory', memoryEngine)
