import { byPath } from '../../../src/versions/selectors.js'
import { deprecated } from '../../../src/versions/deprecation.js'
import { versions } from '../../../src/versions/versions.js'
import { refuses, type Loose } from '../kit/refuses.js'

const make = { deprecated, versions } as unknown as Record<'deprecated' | 'versions', Loose>
const handler = () => undefined
const select = [byPath()]

refuses([
  [() => make.versions(), 'versions: name at least one version'],
  [() => make.versions({}), 'versions: name at least one version'],
  [() => make.versions({ 1: handler }), 'versions: pass options, such as { select }'],
  [() => make.versions({ 1: handler }, { selects: select }), 'versions: there is no option "selects"; did you mean "select"?'],
  [() => make.versions({ 1: { handler, depricated: '2026-01-01' } }, { select }), 'versions: 1: there is no option "depricated"; did you mean "deprecated"?'],
  [() => make.versions({ 1: undefined }, { select }), 'versions: 1: pass options, such as { handler }'],
  [() => make.deprecated({ depricated: '2026-01-01' }), 'deprecated: there is no option "depricated"; did you mean "deprecated"?'],
])
