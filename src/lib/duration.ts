const UNIT_MS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
type Unit = keyof typeof UNIT_MS;

/** What the CRDs' pattern admits: one or more numbers with a unit, largest first, for instance `1h30m`. */
const PATTERN = /^(\d+d)?(\d+h)?(\d+m)?(\d+s)?(\d+ms)?$/;

/** `1h30m` → 5400000. @throws RangeError that names the text when it is not a duration. */
export function parseDuration(text: string): number {
  if (text === '' || !PATTERN.test(text)) {
    throw new RangeError(`"${text}" is not a duration: expected for instance 500ms, 30s, 5m, 1h30m or 7d`);
  }
  let total = 0;
  for (const [, count, unit] of text.matchAll(/(\d+)(ms|[dhms])/g)) total += Number(count) * UNIT_MS[unit as Unit];
  return total;
}

/** 5400000 → `1h30m`; the inverse of `parseDuration`, and what messages show. */
export function formatDuration(ms: number): string {
  let left = Math.max(0, Math.round(ms));
  let text = '';
  for (const unit of ['d', 'h', 'm', 's', 'ms'] as const) {
    const count = Math.floor(left / UNIT_MS[unit]);
    left -= count * UNIT_MS[unit];
    if (count > 0) text += `${count}${unit}`;
  }
  return text === '' ? '0s' : text;
}
