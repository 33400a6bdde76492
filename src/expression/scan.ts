import { quoted, TextFault } from './errors.ts';

export type Part =
  | { readonly kind: 'literal'; readonly text: string }
  /** `offset` is that of `source` within the text, in UTF-16 units. */
  | { readonly kind: 'expression'; readonly source: string; readonly offset: number };

export interface Template {
  /** In order; literals are never empty. */
  readonly parts: readonly Part[];
  /** The text is exactly one `${…}`: its value keeps its type. One newline behind it counts as none, since block scalars end so. */
  readonly isWhole: boolean;
}

/** Takes a text apart at its `${…}`; `$${` is a literal `${`. @throws TextFault when a `${` is not closed. */
export function scanTemplate(text: string): Template {
  const parts: Part[] = [];
  let literal = '';
  let at = 0;
  const flush = (): void => {
    if (literal !== '') parts.push({ kind: 'literal', text: literal });
    literal = '';
  };
  for (let dollar = text.indexOf('$'); dollar !== -1; dollar = text.indexOf('$', at)) {
    literal += text.slice(at, dollar);
    if (text.startsWith('$${', dollar)) {
      literal += '${';
      at = dollar + 3;
    } else if (text.startsWith('${', dollar)) {
      flush();
      const end = closingBrace(text, dollar);
      parts.push({ kind: 'expression', source: text.slice(dollar + 2, end), offset: dollar + 2 });
      at = end + 1;
    } else {
      literal += '$';
      at = dollar + 1;
    }
  }
  literal += text.slice(at);
  const [first] = parts;
  if (parts.length === 1 && first?.kind === 'expression' && (literal === '' || literal === '\n')) {
    return { parts: [first], isWhole: true };
  }
  flush();
  return { parts, isWhole: false };
}

/** Whitespace, comments and texts are CEL's own, so that a brace in them is none. */
function closingBrace(text: string, dollar: number): number {
  let depth = 0;
  for (let at = dollar + 2; at < text.length; at++) {
    switch (text[at]) {
      case '{':
        depth++;
        break;
      case '}':
        if (depth-- === 0) return at;
        break;
      case '"':
      case "'":
        at = endOfString(text, at);
        break;
      case '/':
        if (text[at + 1] === '/') at = endOfLine(text, at);
        break;
    }
  }
  throw new TextFault(
    `"${quoted(text.slice(dollar), 30)}" is not closed: expected a } (write $\${ for a literal \${)`,
    dollar,
  );
}

/** Index of the last quote. A backslash hides the next character, in raw strings too: there it stays, but hides all the same. */
function endOfString(text: string, start: number): number {
  const quote = text[start] ?? '';
  const mark = text.startsWith(quote.repeat(3), start) ? quote.repeat(3) : quote;
  for (let at = start + mark.length; at < text.length; at++) {
    if (text[at] === '\\') at++;
    else if (text.startsWith(mark, at)) return at + mark.length - 1;
    else if (mark.length === 1 && (text[at] === '\n' || text[at] === '\r')) break;
  }
  throw new TextFault(`the string that begins here is not closed: expected a ${mark}`, start);
}

function endOfLine(text: string, start: number): number {
  const newline = text.indexOf('\n', start);
  return newline === -1 ? text.length : newline;
}
