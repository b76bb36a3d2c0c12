import { passesOn } from '../kit/redis-others.js'

passesOn('Redis 8.0')
