import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { text } from 'node:stream/consumers';
import type { JsonValue } from '../../src/lib/json.ts';
import type { Access } from './kubeconfig.ts';

/**
 * One request to the API server on a connection of its own. For the harness only: it must not depend on `src/kube`,
 * which is tested with it.
 */
export async function request(
  access: Access,
  method: string,
  path: string,
  options: { body?: JsonValue; signal: AbortSignal },
): Promise<{ status: number; body: string }> {
  const outgoing = httpsRequest(new URL(path, access.url), {
    method,
    agent: false,
    ca: await readFile(access.caFile),
    headers: { authorization: `Bearer ${access.token}`, 'content-type': 'application/json' },
    signal: options.signal,
  });
  outgoing.end(options.body === undefined ? undefined : JSON.stringify(options.body));
  const [response] = (await once(outgoing, 'response')) as [IncomingMessage];
  return { status: response.statusCode ?? 0, body: await text(response) };
}
