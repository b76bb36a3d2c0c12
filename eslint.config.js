import stylistic from '@stylistic/eslint-plugin'
import { defineConfig } from 'eslint/config'
import tseslint from 'typescript-eslint'
import { docblockStart } from './scripts/docblock-start.mjs'
import { importDirections } from './scripts/import-directions.mjs'
import { testTitle } from './scripts/test-title.mjs'

const noDefaultExport = { selector: 'ExportDefaultDeclaration', message: 'Name what you export.' }
const noTimers = {
  selector: 'ImportDeclaration[source.value=/^(node:)?timers/], MemberExpression[object.name="AbortSignal"][property.name="timeout"]',
  message: 'A timer above 2^31 - 1 ms fires at once. Those of src/runtime/timers.ts wait.',
}
const noOldFunction = {
  selector: 'AssignmentExpression[left.type="MemberExpression"]:matches([right.type="ArrowFunctionExpression"], [right.type="FunctionExpression"])',
  message: 'V8 allocates this function in the old generation, where it keeps all that it refers to. Assign it to a constant first.',
}
const noStar = { selector: 'ExportAllDeclaration', message: 'List the names that you export.' }

export default defineConfig(
  { ignores: ['dist/', 'coverage/', 'docs/', 'node_modules/'] },
  { linterOptions: { noInlineConfig: true, reportUnusedDisableDirectives: 'error' } },

  tseslint.configs.recommendedTypeChecked,
  { languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } } },
  { files: ['**/*.{js,mjs,cjs}'], extends: [tseslint.configs.disableTypeChecked] },
  { files: ['**/*.cjs'], rules: { '@typescript-eslint/no-require-imports': 'off' } },

  {
    plugins: { '@stylistic': stylistic, longhaul: { rules: { 'docblock-start': docblockStart, 'import-directions': importDirections, 'test-title': testTitle } } },
    rules: {
      'longhaul/docblock-start': 'error',
      'longhaul/import-directions': 'error',

      '@stylistic/semi': ['error', 'never'],
      '@stylistic/quotes': ['error', 'single', { avoidEscape: true }],
      '@stylistic/indent': ['error', 2, { SwitchCase: 1, ignoredNodes: ['ConditionalExpression', 'TemplateLiteral *'] }],
      '@stylistic/comma-dangle': ['error', 'only-multiline'],
      '@stylistic/eol-last': 'error',
      '@stylistic/no-trailing-spaces': 'error',
      '@stylistic/no-multiple-empty-lines': ['error', { max: 1, maxEOF: 0 }],
      '@stylistic/max-len': ['error', { code: 150, ignoreUrls: true, ignoreRegExpLiterals: true, ignoreStrings: true, ignoreTemplateLiterals: true }],
      'max-lines': ['error', { max: 400, skipBlankLines: true, skipComments: true }],

      'eqeqeq': 'error',
      'no-constructor-return': 'error',
      'no-template-curly-in-string': 'error',
      'no-unreachable-loop': 'error',
      'no-var': 'error',
      'object-shorthand': ['error', 'properties'],
      'prefer-const': 'error',
      'no-restricted-syntax': ['error', noDefaultExport],
      '@typescript-eslint/consistent-type-imports': ['error', { fixStyle: 'inline-type-imports', disallowTypeAnnotations: false }],
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_', ignoreRestSiblings: true }]
    }
  },
  {
    files: ['**/*.ts'],
    rules: {
      '@typescript-eslint/consistent-type-exports': 'error',
      // node:test's own functions return promises that the runner waits for.
      '@typescript-eslint/no-floating-promises': ['error', {
        allowForKnownSafeCalls: [{ from: 'package', name: ['test', 'it', 'describe', 'suite'], package: 'node:test' }]
      }],
      '@typescript-eslint/no-misused-promises': ['error', { checksVoidReturn: { attributes: false, arguments: false } }],
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true, allowBoolean: true }],
      '@typescript-eslint/switch-exhaustiveness-check': ['error', { considerDefaultExhaustiveForUnions: true }],
      // A method may be async because its contract is.
      '@typescript-eslint/require-await': 'off'
    }
  },
  {
    files: ['src/**', 'adapters/**', 'conformance/**'],
    rules: {
      'max-params': ['error', 4],
      'max-lines-per-function': ['error', { max: 60, skipBlankLines: true, skipComments: true }],
    }
  },
  { files: ['src/**', 'adapters/**', 'conformance/**'], rules: { 'no-restricted-syntax': ['error', noDefaultExport, noStar, noTimers, noOldFunction], 'no-restricted-globals': ['error', { name: 'setTimeout', message: noTimers.message }], 'no-console': ['error', { allow: ['error'] }] } },
  // Runs in browsers.
  { files: ['adapters/console/page/**'], rules: { 'no-restricted-globals': 'off' } },
  // Runs from the sources only: the build replaces it.
  { files: ['adapters/console/assets.ts'], rules: { 'longhaul/import-directions': 'off' } },
  { files: ['src/runtime/timers.ts'], rules: { 'no-restricted-syntax': ['error', noDefaultExport, noStar, noOldFunction] } },
  {
    files: ['adapters/**'],
    rules: {
      '@typescript-eslint/no-restricted-imports': ['error', {
        paths: [{ name: 'bullmq', allowTypeImports: true, message: 'Import its types only: the application passes its own queue.' }]
      }]
    }
  },
  {
    // Runs in browsers too; the types of Node would let these pass.
    files: ['src/client/**'],
    rules: { 'no-restricted-globals': ['error', 'Buffer', 'process', 'global', 'require', 'setImmediate', '__dirname'] }
  },
  {
    // The type of a host's user is known to the host only: what a new user writes has to compile.
    files: ['src/http/principal.ts'],
    rules: { '@typescript-eslint/no-explicit-any': 'off' }
  },
  { files: ['test/**', 'conformance/**'], rules: { 'longhaul/test-title': 'error' } },
  { files: ['*.config.{js,ts}'], rules: { 'no-restricted-syntax': 'off' } },
  {
    // Tests read JSON and fakes; what they assert is what makes them safe.
    files: ['test/**', 'bench/**'],
    rules: {
      '@typescript-eslint/no-unsafe-assignment': 'off',
      '@typescript-eslint/no-unsafe-member-access': 'off',
      '@typescript-eslint/no-unsafe-argument': 'off',
      '@typescript-eslint/no-unsafe-call': 'off',
      '@typescript-eslint/no-unsafe-return': 'off',
      '@typescript-eslint/unbound-method': 'off',
      '@typescript-eslint/no-misused-promises': 'off',
      '@typescript-eslint/only-throw-error': 'off',
      '@typescript-eslint/no-unused-vars': ['error', { args: 'none', varsIgnorePattern: '^_', ignoreRestSiblings: true }],
      'longhaul/docblock-start': 'off',
      'max-lines': 'off',
      'no-unreachable-loop': 'off'
    }
  },
  { files: ['bench/**'], rules: { '@stylistic/max-len': 'off' } },
  {
    files: ['test/**'],
    rules: {
      '@stylistic/max-len': ['error', {
        code: 120, ignoreUrls: true, ignoreRegExpLiterals: true, ignoreStrings: true, ignoreTemplateLiterals: true
      }]
    }
  }
)
