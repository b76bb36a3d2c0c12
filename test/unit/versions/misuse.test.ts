import { byPath } from '../../../src/versions/selectors.js'
import { deprecated } from '../../../src/versions/deprecation.js'
import { versionNeutral, versions } from '../../../src/versions/versions.js'
import { refuses, type Loose } from '../kit/refuses.js'

const make = { deprecated, versionNeutral, versions } as unknown as Record<
  'deprecated' | 'versionNeutral' | 'versions',
  Loose
>
const DATE = 'a Date, or the string of one, such as 2026-07-01'
const handler = () => undefined
const select = [byPath()]

refuses([
  [() => make.versions(), 'versions: name at least one version'],
  [() => make.versions({}), 'versions: name at least one version'],
  [() => make.versions({ 1: handler }), 'versions: pass options, such as { select }'],
  [
    () => make.versions({ 1: handler }, { selects: select }),
    'versions: there is no option "selects"; did you mean "select"?',
  ],
  [
    () => make.versions({ 1: { handler, depricated: '2026-01-01' } }, { select }),
    'versions: 1: there is no option "depricated"; did you mean "deprecated"?',
  ],
  [() => make.versions({ 1: undefined }, { select }), 'versions: 1: pass options, such as { handler }'],
  [
    () => make.deprecated({ depricated: '2026-01-01' }),
    'deprecated: there is no option "depricated"; did you mean "deprecated"?',
  ],
  [
    () => make.versions({ 1: handler }, { select: ['header'] }),
    'versions: select must be a list of ways to select, such as [byPath()], not ["header"]',
  ],
  [
    () => make.versions({ 1: handler }, { select: [undefined] }),
    'versions: select must be a list of ways to select, such as [byPath()], not [undefined]',
  ],
  [
    () => make.versionNeutral(handler, { select: ['header'] }),
    'versionNeutral: select must be a list of ways to select, such as [byPath()], not ["header"]',
  ],
  [
    () => make.versions({ 1: { handler, deprecated: true } }, { select }),
    `versions: 1: deprecated must be ${DATE}, not true`,
  ],
  [() => make.deprecated({ deprecated: true }), `deprecated: deprecated must be ${DATE}, not true`],
  [() => make.deprecated({ deprecated: new Date(NaN) }), `deprecated: deprecated must be ${DATE}, not an object`],
  [() => make.deprecated({ deprecated: '2026-01-01', sunset: 0 }), `deprecated: sunset must be ${DATE}, not 0`],
])
