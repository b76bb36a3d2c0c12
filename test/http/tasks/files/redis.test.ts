import { redisUrl } from '../../../servers/redis-server.js'
import { redisEngine } from '../../kit/file-engines.js'
import { filesSuite } from './suite.js'

const url = await redisUrl()
filesSuite('Redis and a folder', () => redisEngine(url))
