const NEWLINE = 0x0a;

/**
 * Splits a stream of bytes at newlines. Works on bytes, so that a character may lie across two chunks; the parts of a
 * long line are joined once. @throws Error when the stream ends within a line: it was cut there.
 */
export async function* splitLines(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string, void, undefined> {
  let parts: Uint8Array[] = [];
  for await (const chunk of chunks) {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
      parts.push(chunk.subarray(start, end));
      const line = Buffer.concat(parts).toString('utf8');
      parts = [];
      start = end + 1;
      yield line;
    }
    if (start < chunk.length) parts.push(chunk.subarray(start));
  }
  if (parts.length > 0) throw new Error('the stream ended within a line');
}
