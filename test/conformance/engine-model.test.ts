import * as runner from 'node:test'
import { engineConformance } from 'longhaul/conformance'
import { modelFixture } from './model-fixture.js'

engineConformance(runner, async (settings) => modelFixture(settings), {
  title: 'ModelEngine, shared', isBounded: true, removesAgainSoon: true,
})

engineConformance(runner, async (settings) => modelFixture(settings, { isDurable: false }), {
  title: 'ModelEngine, in one process', isBounded: true, removesAgainSoon: true, isShared: false,
})
