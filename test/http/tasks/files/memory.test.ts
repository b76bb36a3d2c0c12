import { memoryEngine } from '../../kit/file-engines.js'
import { partialFilesSuite } from './partial-suite.js'
import { filesSuite } from './suite.js'

filesSuite('memory', memoryEngine)
partialFilesSuite('memory', memoryEngine)
