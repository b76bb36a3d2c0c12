export type { Clock } from '../runtime/timers.js'
export { InjectedResponse, inject } from './inject.js'
export { testClock, type TestClock } from './test-clock.js'
export { testContext, type TestContext } from './test-context.js'
