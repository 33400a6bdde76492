/** One fault of an expression, or of the text around it; as `status.checks` lists it. */
export interface ExpressionFault {
  /** Of the text within its document, for instance `spec.steps[2].args.text`. */
  readonly path: string;
  /** 1-based, in UTF-16 units, within the whole text at `path`; absent when the fault has no one place. */
  readonly column?: number;
  /** For the author of the workflow; says nothing of the parts that we use. */
  readonly message: string;
}

/** Expressions that do not compile (every fault of them), or one that has no value for this scope (one fault). */
export class ExpressionError extends Error {
  override readonly name = 'ExpressionError';
  readonly faults: readonly ExpressionFault[];

  constructor(faults: readonly ExpressionFault[], options?: ErrorOptions) {
    super(faults.map(faultText).join('; '), options);
    this.faults = faults;
  }
}

/** `spec.output.image, column 3: no such key 'imgae' in results.build (known: image)`. */
function faultText({ path, column, message }: ExpressionFault): string {
  const place = [path, column === undefined ? '' : `column ${column}`].filter((part) => part !== '').join(', ');
  return place === '' ? message : `${place}: ${message}`;
}

/** A fault in one text, before it is known where the text stands. */
export class TextFault extends Error {
  /** 0-based, in UTF-16 units. */
  readonly offset: number | undefined;

  constructor(message: string, offset: number | undefined, options?: ErrorOptions) {
    super(message, options);
    this.offset = offset;
  }
}

/** Data and sources are quoted in messages, but not at any length. */
export function quoted(text: string, limit = 60): string {
  return text.length <= limit ? text : `${text.slice(0, limit - 1)}…`;
}
