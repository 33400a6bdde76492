import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type NodeIncomingMessageLike, toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, ProtocolError, Server, type ServerContext } from '@modelcontextprotocol/server';
import { type CallContext, type Cluster, type FixtureTool, fixtureTools } from './fixture-tools.ts';

export interface FixtureServer {
  readonly url: string;
  close(): Promise<void>;
}

/** The one upstream MCP server of the fixtures, on a free loopback port. */
export async function startFixtureServer(cluster: Cluster): Promise<FixtureServer> {
  const tools = fixtureTools(cluster);
  const handler = createMcpHandler(() => createToolServer(tools));
  const serve = toNodeHandler(handler);
  // The adapter's type does not allow for exactOptionalPropertyTypes; what it describes is an IncomingMessage.
  const http = createServer((request, response) => void serve(request as NodeIncomingMessageLike, response));
  http.listen(0, '127.0.0.1');
  await once(http, 'listening');
  const { port } = http.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    async close() {
      await handler.close();
      const closed = once(http, 'close');
      http.close();
      http.closeAllConnections();
      await closed;
    },
  };
}

/** The low-level class, since `McpServer` turns a thrown `ProtocolError` into an `isError` result. */
function createToolServer(tools: readonly FixtureTool[]): Server {
  const server = new Server({ name: 'conformance-fixture', version: '1.0.0' }, { capabilities: { tools: {} } });
  server.setRequestHandler('tools/list', () => ({ tools: tools.map(({ run: _, ...listed }) => listed) }));
  server.setRequestHandler('tools/call', ({ params }, context) => {
    const tool = tools.find(({ name }) => name === params.name);
    if (tool === undefined) throw new ProtocolError(-32602, `there is no tool "${params.name}"`);
    return tool.run(params.arguments ?? {}, callContext(context));
  });
  return server;
}

function callContext({ mcpReq }: ServerContext): CallContext {
  const progressToken = mcpReq._meta?.progressToken;
  return {
    signal: mcpReq.signal,
    async progress(progress, total) {
      if (progressToken === undefined) return;
      await mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress, total } });
    },
  };
}
