// An ESLint rule: a docblock begins with a verb or a noun phrase. A question word hides what the code does.
const QUESTION = /^[\s*]*((?:What|Whether|Who|Whose|How|Where|When|Which|Why)(?![\w-]))/

/** @type {import('eslint').Rule.RuleModule} */
export const docblockStart = {
  meta: { type: 'suggestion', schema: [], messages: { question: 'begin with a verb or a noun phrase, not with {{word}}' } },
  create: (context) => ({
    Program() {
      for (const comment of context.sourceCode.getAllComments()) {
        const [, word] = (comment.type === 'Block' && comment.value.startsWith('*') && QUESTION.exec(comment.value)) || []
        if (word) context.report({ loc: comment.loc, messageId: 'question', data: { word } })
      }
    }
  })
}
