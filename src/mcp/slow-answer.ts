import { isEventStream } from './http-server.ts';

const HEADERS = {
  'content-type': 'text/event-stream',
  'cache-control': 'no-cache, no-transform',
  'x-accel-buffering': 'no',
};

/**
 * An answer that takes longer than `keepAliveMs` becomes a stream: comments at that interval until it is there, so that no
 * proxy takes the connection for dead (field cases 29, 30). The SDK streams only what has progress to tell.
 */
export async function streamWhenSlow(answer: Promise<Response>, keepAliveMs: number): Promise<Response> {
  const { promise: slow, resolve } = Promise.withResolvers<undefined>();
  const timer = setTimeout(resolve, keepAliveMs, undefined);
  try {
    const response = await Promise.race([answer, slow]);
    return response ?? new Response(streamOf(answer, keepAliveMs), { headers: HEADERS });
  } finally {
    clearTimeout(timer);
  }
}

function streamOf(answer: Promise<Response>, keepAliveMs: number): ReadableStream<Uint8Array> {
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
  void relay(answer, writable, keepAliveMs);
  return readable;
}

/** Ends when the answer does or the reader is gone, whichever is first; in the latter case the request's signal says so too. */
async function relay(
  answer: Promise<Response>,
  writable: WritableStream<Uint8Array>,
  keepAliveMs: number,
): Promise<void> {
  const encoder = new TextEncoder();
  const writer = writable.getWriter();
  const comment = (): void => {
    writer.write(encoder.encode(': keepalive\n\n')).catch(() => clearInterval(timer));
  };
  const timer = setInterval(comment, keepAliveMs);
  comment();
  try {
    const response = await answer;
    clearInterval(timer);
    if (response.body !== null && isEventStream(response)) {
      writer.releaseLock();
      await response.body.pipeTo(writable);
      return;
    }
    await writer.write(encoder.encode(`event: message\ndata: ${await response.text()}\n\n`));
    await writer.close();
  } catch (error) {
    await writable.abort(error).catch(() => {});
  } finally {
    clearInterval(timer);
  }
}
