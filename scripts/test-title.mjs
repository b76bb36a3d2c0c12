// An ESLint rule: the title of a test is a sentence, read together with the titles of its describes.

/** Verbs that are hardly ever nouns: their base form and their form with -s. */
const VERBS = `
  abort accept acknowledge add admit affect agree allow alternate appear apply arrive ask avoid await become begin
  belong blame bound break carry catch choose clear come compare compile complete compute connect contain continue
  contradict convert cover create decide decline decode decompress depend describe detect die differ disappear
  disconnect distinguish do emit enter escape evict examine exceed exclude exist exit expect expire explain express
  fail fall find finish fire fit follow free freeze generate get give go grow guess happen harm hear hide hold ignore
  implement include increase infer inherit inject interrupt iterate join judge keep kill know lack lead leak leave let
  listen live lose make mean measure merge mix need notify obey occur omit open overflow outlive parse pass pay permit
  mask prefer prevent prolong provide publish put reach read receive recognise reconnect recover recurse redeliver redirect
  reduce reject release remain remove renew reopen reorder replace require resend reset resolve respond restart restore
  resume reuse save say see select send separate serve shorten show skip spool start stay stop succeed survive take
  tell throw treat trust turn type unquote use validate vary verify violate wait wake want warn win work write yield
`.trim().split(/\s+/)

/** Verbs that are nouns too: they count unless the word before says that they are nouns. */
const VERBS_OR_NOUNS = `
  answer call cancel cap cause change charge check claim close commit cost count crash cut delay delete download drain drop echo
  end equal fence fill flush index increment kick limit link list load lock log look map mark match measure move name
  note offer order own page pause point poll print quote range rate record refill repeat reply report request retry
  return roll run set settle share slow spend split store stream submit sweep test try update upload
`.trim().split(/\s+/)

const AUXILIARIES = 'is are was were has have had does can cannot may must might will would should'.split(' ')

/** A word before a noun. */
const BEFORE_NOUN = new Set(`
  a an the of in on at to for with without by from as no any each every one two some all its their this these those
  another other own and or into after before during between per large small new first last next concurrent
`.trim().split(/\s+/))

const withS = (verb) => /(?:s|sh|ch|x|z|o)$/.test(verb) ? `${verb}es` : /[^aeiou]y$/.test(verb) ? `${verb.slice(0, -1)}ies` : `${verb}s`
const forms = (verbs) => new Set(verbs.flatMap((verb) => [verb, withS(verb)]))
const verbs = new Set([...forms(VERBS), ...AUXILIARIES])
const verbsOrNouns = forms(VERBS_OR_NOUNS)

/** Words that begin neither a sentence nor its second half. */
const BEGINNING = /^(?:that|of|by|and|also|either|so|too|but|it|they)\b/i
/** The verb of a title that leaves its subject to a describe. */
const PREDICATE = new RegExp(`^(?:${AUXILIARIES.join('|')}|gets|rejects|responds|returns|throws)\\b`)
const VAGUE = /\bthe same (?:holds|goes|for|is true)\b|\bas well\b(?! as)|,? (?:too|either|likewise)$|, also\b|^the same\b/i

/** The clauses or the rule that a title proves, or the place of a table that it shows. */
const TAG = /^(?:SPEC [^:]+|RFC \d+[^:]*): /

/** Finds a finite verb. `isContinued` says that a describe has the subject. */
function hasVerb(title, isContinued) {
  const words = title.toLowerCase().match(/[\p{L}\d$…'`.-]+/gu) ?? []
  return words.some((word, at) => verbs.has(word) || (verbsOrNouns.has(word)
    && (at === 0 ? isContinued : !BEFORE_NOUN.has(words[at - 1]))))
}

/**
 * Returns what stops a reader of a title, or undefined.
 * @param {readonly string[]} groups - the titles of its describes, the outermost first
 * @param {string} title - `…` stands for a part that is not known
 * @returns {string | undefined}
 */
export function titleFault(groups, title) {
  const text = title.replace(TAG, '')
  const [beginning] = BEGINNING.exec(text) ?? []
  if (beginning) return `begin with the subject or the verb, not with ${beginning}`
  if (groups.length === 0 && PREDICATE.test(text)) return 'name the subject: no describe has it'
  const [vague] = VAGUE.exec(text) ?? []
  if (/;/.test(text)) return 'say one fact: a semicolon joins two'
  if (vague) return `say what is meant by "${vague.trim().replace(/^, /, '')}"`
  const isKnown = !groups.includes('…') && !/^\W*…\W*$/.test(text)
  if (isKnown && !hasVerb(text, groups.length > 0) && !groups.some((group) => hasVerb(group, false))) return 'write a sentence with a verb'
  return undefined
}

/** Reads a title from the code: `…` stands for each expression in it. */
function titleOf(node) {
  if (node?.type === 'Literal' && typeof node.value === 'string') return node.value
  if (node?.type === 'TemplateLiteral') return node.quasis.map(({ value }) => value.cooked).join('…')
  return undefined
}

/** The function that a call names, such as `test` of `test.skip` and `it` of `runner.it`. */
function calledName({ callee }) {
  const names = []
  for (let node = callee; ; node = node.object) {
    if (node.type === 'Identifier') names.push(node.name)
    if (node.type !== 'MemberExpression') break
    if (node.property.type === 'Identifier') names.push(node.property.name)
  }
  return names.find((name) => ['test', 'it', 'describe'].includes(name))
}

/** @type {import('eslint').Rule.RuleModule} */
export const testTitle = {
  meta: { type: 'suggestion', schema: [], messages: { fault: '{{fault}}' } },
  create: (context) => {
    // A suite in a function has a describe that is not known here.
    const groupsOf = (node) => {
      const around = context.sourceCode.getAncestors(node)
      const groups = around.filter((each) => each.type === 'CallExpression' && calledName(each) === 'describe')
      const isInSuite = groups.length === 0 && around.some(({ type }) => /Function/.test(type))
      return isInSuite ? ['…'] : groups.map((each) => titleOf(each.arguments[0]) ?? '…')
    }
    const check = (node, title, groups) => {
      const fault = titleFault(groups, title)
      if (fault) context.report({ node, messageId: 'fault', data: { fault } })
    }
    return {
      CallExpression(node) {
        const [first, ...rest] = node.arguments
        const title = titleOf(first)
        if (title === undefined || rest.length === 0) return
        const name = calledName(node)
        if (name === 'test' || name === 'it') check(first, title, groupsOf(node))
      },
      // The cases of a conformance suite.
      'VariableDeclarator[id.typeAnnotation.typeAnnotation.typeName.name="Cases"] > ObjectExpression > Property'(node) {
        const title = titleOf(node.key)
        if (title !== undefined) check(node.key, title, [])
      }
    }
  }
}
