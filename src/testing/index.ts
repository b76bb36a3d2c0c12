export type { Clock } from '../runtime/timers.js'
export { InjectedResponse, inject, type InjectOptions, type InjectRequest } from './inject.js'
export { testClock, type TestClock, type TestClockOptions } from './test-clock.js'
export {
  testContext, type ProgressReport, type TestContext, type TestContextOptions, type TestFile,
} from './test-context.js'
