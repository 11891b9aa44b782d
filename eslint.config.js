import js from '@eslint/js';
import globals from 'globals';
import tseslint from 'typescript-eslint';

const unusedArguments = { argsIgnorePattern: '^_', caughtErrorsIgnorePattern: '^_' };

export default [
  {
    ignores: [
      'build/',
      'dist/',
      'node_modules/',
      'demos/models/',
      'demos/data/',
      'docs/.vitepress/.temp/',
    ],
  },
  {
    files: ['**/*.mjs', '**/*.js'],
    ...js.configs.recommended,
    languageOptions: { globals: { ...globals.node, ...globals.browser } },
    rules: { ...js.configs.recommended.rules, 'no-unused-vars': ['error', unusedArguments] },
  },
  {
    files: ['demos/projects/next/**/*.js'],
    languageOptions: { parserOptions: { ecmaFeatures: { jsx: true } } },
  },
  ...tseslint.configs.recommended.map((config) => ({ ...config, files: ['**/*.ts', '**/*.tsx'] })),
  {
    files: ['web/**/*.ts', 'demos/**/*.{ts,tsx}', 'tests/**/*.ts'],
    languageOptions: {
      parserOptions: { project: './tsconfig.check.json', tsconfigRootDir: import.meta.dirname },
    },
    rules: {
      '@typescript-eslint/await-thenable': 'error',
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/no-misused-promises': 'error',
      '@typescript-eslint/no-unused-vars': ['error', unusedArguments],
      'no-restricted-syntax': [
        'error',
        { selector: 'ExportDefaultDeclaration', message: 'Export by name.' },
      ],
    },
  },
  {
    files: ['**/*.d.ts', 'eslint.config.js', '**/vite.config.*'],
    rules: { 'no-restricted-syntax': 'off' },
  },
];
