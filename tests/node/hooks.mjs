// Module hooks: the AI SDK's major that AI_MAJOR names, and JSX of the documentation.
//
// `ai` and `@ai-sdk/react` are packages under other names here, so that two majors are installed.
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import typescript from 'typescript';

const major = process.env.AI_MAJOR ?? '7';
const documentation = new URL('../../docs/', import.meta.url).href;
const names = { ai: `ai-${major}`, '@ai-sdk/react': `@ai-sdk/react-${major}` };

export async function resolve(specifier, context, next) {
  const from = context.parentURL ?? '';
  if (from.startsWith(documentation) && !/^[./]|^node:|^file:/.test(specifier)) {
    return next(names[specifier] ?? specifier, { ...context, parentURL: import.meta.url });
  }
  return next(specifier, context);
}

export async function load(url, context, next) {
  if (!url.endsWith('.jsx')) return next(url, context);
  const source = await readFile(fileURLToPath(url), 'utf8');
  const { outputText } = typescript.transpileModule(source, {
    compilerOptions: { jsx: 'react-jsx', target: 'ES2022', module: 'ESNext' },
    fileName: 'example.jsx',
  });
  return { format: 'module', source: outputText, shortCircuit: true };
}
