import { passesOn } from '../kit/redis-others.js'

passesOn('Valkey 8.1')
