import { redisUrl } from '../../../servers/redis-server.js'
import { redisEngine } from '../../kit/file-engines.js'
import { partialFilesSuite } from './partial-suite.js'
import { filesSuite } from './suite.js'

const url = await redisUrl()
filesSuite('Redis and a folder', () => redisEngine(url))
partialFilesSuite('Redis and a folder', () => redisEngine(url))
