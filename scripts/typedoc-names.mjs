// A plugin of typedoc: entry points by the names that users import, pages by their headings, in groups.
import { Converter, ReflectionKind } from 'typedoc'

const GROUPS = [[/^guide\//, 'Guide'], [/^adr\//, 'Decisions'], [/(?:)/, 'To look things up']]

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
