import { suiteBehindPooler, suiteOn } from './postgres-queue-suite.js'

suiteOn(17)
suiteBehindPooler()
