export {
  type EngineConformanceOptions, type EngineFixture, type EngineProcess, type EngineSettings,
  type OpenTransaction,
} from './fixture.js'
export { engineConformance } from './suite.js'
