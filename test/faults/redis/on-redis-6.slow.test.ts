import { passesOn } from '../kit/redis-others.js'

passesOn('Redis 6.0')
