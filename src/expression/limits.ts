/** What one expression may be, and what its evaluation may cost. Fixed, so that a workflow means the same on every replica. */
export const LIMITS = {
  /** UTF-8. */
  sourceBytes: 4096,
  /** Of brackets, calls and selects within each other. */
  depth: 48,
  nodes: 2000,
  /** Elements of one list or map that is written out. */
  elements: 1000,
  /** Nodes evaluated; lists and texts that are made or searched count by their size. */
  steps: 100_000,
  patternLength: 512,
  /** Of the text of a duration; a longer one is none, and would take the parser its square. */
  durationLength: 64,
  /** Lists and maps within each other, of a value that is read whole, compared or given. */
  valueDepth: 64,
  /** Characters of text that one value may hold, with 8 for each of its parts. */
  valueSize: 16 * 1024 * 1024,
} as const;
