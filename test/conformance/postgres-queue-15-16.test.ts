import { suiteOn } from './postgres-queue-suite.js'

suiteOn(15)
suiteOn(16)
