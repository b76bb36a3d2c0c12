import { suiteOn } from './postgres-queue-suite.js'

suiteOn(13)
suiteOn(14)
