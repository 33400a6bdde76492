/** The candidate that `name` was probably meant to be: at most two edits away, and most of it the same. */
export function nearMiss(name: string, candidates: Iterable<string>): string | undefined {
  let best: { candidate: string; distance: number } | undefined;
  for (const candidate of candidates) {
    const distance = editDistance(name, candidate);
    const closeEnough = distance <= 2 && distance < Math.max(name.length, candidate.length) / 2;
    if (closeEnough && distance < (best?.distance ?? Infinity)) best = { candidate, distance };
  }
  return best?.candidate;
}

/** ` (did you mean 'build'?)`, or the names there are, or nothing when there is none. */
export function suggestion(name: string, candidates: readonly string[]): string {
  const near = nearMiss(name, candidates);
  if (near !== undefined) return ` (did you mean '${near}'?)`;
  return candidates.length === 0 ? '' : ` (known: ${candidates.join(', ')})`;
}

/** Insertions, deletions, replacements, and swaps of two neighbours: the usual slips of a keyboard. */
function editDistance(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1] ? 0 : 1;
      let cost = Math.min(at(last, j) + 1, at(row, j - 1) + 1, at(last, j - 1) + same);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        cost = Math.min(cost, at(beforeLast, j - 2) + 1);
      row.push(cost);
    }
    beforeLast = last;
    last = row;
  }
  return at(last, b.length);
}

function at(row: readonly number[], index: number): number {
  return row[index] ?? Infinity;
}
