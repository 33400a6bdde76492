import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** Passes bytes between a loopback port of its own and another; what it does to them, TLS and HTTP/2 do not see coming. */
export interface TcpRelay {
  readonly port: number;
  /** Connections ever made, and those that stand. */
  readonly connections: { readonly total: number; readonly open: number };
  /** Resets every connection. */
  cut(): void;
  /** No byte passes any more and nobody is told, until `thaw`: on the connections that stand, or on new ones too. */
  freeze(which: 'standing' | 'all'): void;
  thaw(): void;
  close(): Promise<void>;
}

/** @param options `port`: of its own, default any; `changed`: called when a connection was made or has ended */
export async function startTcpRelay(
  targetPort: number,
  { port = 0, changed = () => undefined }: { port?: number; changed?: () => void } = {},
): Promise<TcpRelay> {
  const pairs = new Set<readonly [Socket, Socket]>();
  let total = 0;
  let frozen = false;

  const flow = ([client, target]: readonly [Socket, Socket]): void => {
    client.pipe(target);
    target.pipe(client);
  };
  const server = createServer((client) => {
    total += 1;
    const pair = [client, connect(targetPort, '127.0.0.1')] as const;
    pairs.add(pair);
    for (const socket of pair) {
      socket.setNoDelay(true);
      // An error is always followed by a close, which is what counts here.
      socket.on('error', () => undefined);
      socket.on('close', () => {
        for (const each of pair) each.destroy();
        if (pairs.delete(pair)) changed();
      });
    }
    if (!frozen) flow(pair);
    changed();
  });
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');

  const relay: TcpRelay = {
    port: (server.address() as AddressInfo).port,
    get connections() {
      return { total, open: pairs.size };
    },
    cut() {
      for (const [client] of pairs) client.resetAndDestroy();
    },
    freeze(which) {
      frozen = which === 'all';
      for (const pair of pairs) for (const socket of pair) socket.unpipe().pause();
    },
    thaw() {
      frozen = false;
      for (const pair of pairs) flow(pair);
    },
    async close() {
      relay.cut();
      server.close();
      await once(server, 'close');
    },
  };
  return relay;
}
