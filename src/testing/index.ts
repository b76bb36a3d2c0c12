export type { Clock } from '../runtime/timers.js'
export { inject, type InjectOptions, type InjectRequest } from './inject.js'
export { InjectedResponse } from './injected-response.js'
export { testClock, type TestClock, type TestClockOptions } from './test-clock.js'
export {
  testContext, type ProgressReport, type TestContext, type TestContextOptions,
} from './test-context.js'
export type { TestFile } from './test-files.js'
