// A plugin of typedoc: entry points by the names that users import, pages by their headings, in groups.
import { Converter, ReflectionKind } from 'typedoc'

/** The group of each page, by its path below docs. The first that matches counts. */
const GROUPS = [
  [/^guide\/(getting-started|express|nestjs|embedding|migrating|which-tool|console)$/, 'Start'],
  [/^guide\/(production|redis-and-workers|postgres|operations|logging|writing-an-adapter)$/, 'Run'],
  [/^guide\/options$/, 'Look up'],
  [/^guide\//, 'Build'],
  [/^adr\//, 'Decisions'],
  [/(?:)/, 'Look up']
]

export function load(app) {
  app.converter.on(Converter.EVENT_CREATE_DOCUMENT, (_context, page) => {
    const [, group] = GROUPS.find(([pattern]) => pattern.test(page.name))
    const title = /^# (.+)$/m.exec(page.content.map(({ text }) => text).join(''))?.[1]
    if (title !== undefined) page.name = title.replaceAll('`', '')
    page.frontmatter.group = group
  })
  app.converter.on(Converter.EVENT_RESOLVE_BEGIN, ({ project }) => {
    for (const module of project.getReflectionsByKind(ReflectionKind.Module)) {
      module.name = module.name.replace(/^src$/, 'longhaul').replace(/^(?:src|adapters)\//, 'longhaul/')
    }
  })
}
