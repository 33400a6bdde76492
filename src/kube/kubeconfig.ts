import { isDeepStrictEqual } from 'node:util';
import { KubeConfig } from '@kubernetes/client-node';
import { type Clock, systemClock } from '../lib/clock.ts';
import { describeError } from '../lib/errors.ts';
import { UnavailableError } from './errors.ts';

export interface ClusterOptions {
  /** Path of a kubeconfig. Without it: the pod's ServiceAccount, else `$KUBECONFIG`, else `~/.kube/config`. */
  readonly kubeconfig?: string;
  /** A context of the kubeconfig; default its current one. */
  readonly context?: string;
  /** Put before the paths of the pod's ServiceAccount files; for tests, which have no `/var/run/secrets`. */
  readonly serviceAccountRoot?: string;
}

/** What TLS needs; two of them that are deeply equal may share a connection. */
export interface TlsMaterial {
  readonly ca?: Buffer;
  readonly cert?: Buffer | string;
  readonly key?: Buffer | string;
  readonly rejectUnauthorized?: boolean;
  readonly servername?: string;
}

export interface Credentials {
  readonly headers: Readonly<Record<string, string>>;
  readonly tls: TlsMaterial;
}

/** One API server, and who we are to it. */
export interface Cluster {
  /** For instance `https://10.0.0.1:443`; no slash at its end. */
  readonly server: string;
  /** Of the context or of the pod; `default` when neither says. */
  readonly namespace: string;
  readonly context: string;
  readonly proxyUrl?: string;
  /** As the files and plugins give them now, at most a second old. @throws UnavailableError when they cannot be read. */
  credentials(): Promise<Credentials>;
  /** After a 401: reads everything anew. Resolves with `rejected` itself when that gives nothing else. */
  renew(rejected: Credentials): Promise<Credentials>;
}

/**
 * Bounds the file reads (client-node reads CA and client certificate synchronously, each time), and how often an exec
 * plugin is started while the server refuses what it gives.
 */
const FRESH_MS = 1_000;

/**
 * Loads through client-node's `KubeConfig`, which knows every way to authenticate; nothing else of client-node is used.
 * @throws Error that says which context is missing, or what is wrong with the file.
 */
export function loadCluster(options: ClusterOptions = {}, clock: Clock = systemClock): Cluster {
  const first = load(options);
  const context = first.getCurrentContext();
  const cluster = first.getCurrentCluster();
  if (cluster === null) throw new Error(noSuchContext(first, context, options));

  let config = first;
  let current: Credentials | undefined;
  let readAt = Number.NEGATIVE_INFINITY;
  let renewedAt = Number.NEGATIVE_INFINITY;
  let reading: Promise<Credentials> | undefined;

  /** One read at a time: an exec plugin would otherwise be started by every request that waits for it. */
  const read = (from: () => KubeConfig): Promise<Credentials> => {
    // Cleared in a later turn, also when `from` throws at once: a settled one that stayed would be waited for for ever.
    reading ??= readOnce(from).finally(() => {
      reading = undefined;
    });
    return reading;
  };

  const readOnce = async (from: () => KubeConfig): Promise<Credentials> => {
    try {
      const source = from();
      const fresh = await readCredentials(source);
      config = source;
      // The same object while nothing changed: that is how `renew` and the transport see a change.
      if (current === undefined || !isDeepStrictEqual(current, fresh)) current = fresh;
      readAt = clock.now();
      return current;
    } catch (error) {
      const message = `cannot read the credentials of context "${context}": ${describeError(error)}`;
      throw new UnavailableError(message, 0, '', 'none', { cause: error });
    }
  };

  return {
    server: cluster.server.replace(/\/+$/, ''),
    namespace: first.getContextObject(context)?.namespace?.trim() || 'default',
    context,
    ...(cluster.proxyUrl === undefined ? {} : { proxyUrl: cluster.proxyUrl }),
    async credentials() {
      if (current !== undefined && clock.now() - readAt < FRESH_MS) return current;
      return read(() => config);
    },
    async renew(rejected) {
      // A read under way may bring what is wanted, also one that another request's 401 has begun.
      while (reading !== undefined) await reading.catch(() => undefined);
      if (current !== undefined && current !== rejected) return current;
      if (clock.now() - renewedAt < FRESH_MS) return rejected;
      renewedAt = clock.now();
      // A new KubeConfig: the old one keeps tokens of files for a minute and those of exec plugins until they expire.
      return read(() => load({ ...options, context }));
    },
  };
}

function load(options: ClusterOptions): KubeConfig {
  const config = new KubeConfig();
  if (options.kubeconfig !== undefined) config.loadFromFile(options.kubeconfig);
  else if (process.env.KUBERNETES_SERVICE_HOST) config.loadFromCluster(options.serviceAccountRoot);
  else config.loadFromDefault();
  if (options.context !== undefined) {
    if (config.getContextObject(options.context) === null) {
      throw new Error(noSuchContext(config, options.context, options));
    }
    config.setCurrentContext(options.context);
  }
  // Without this, client-node refuses plain http (`kubectl proxy`, test servers, ports 80, 8080 and 8001 in a pod).
  config.clusters = config.clusters.map((cluster) =>
    cluster.server.startsWith('http:') ? { ...cluster, skipTLSVerify: true } : cluster,
  );
  return config;
}

function noSuchContext(config: KubeConfig, context: string | undefined, options: ClusterOptions): string {
  const where = options.kubeconfig ?? 'the kubeconfig';
  const known = config.getContexts().map((each) => each.name);
  if (known.length === 0) return `${where} has no contexts`;
  if (!context) return `${where} has no current context: choose one of ${known.join(', ')}`;
  return `${where} has no usable context "${context}": choose one of ${known.join(', ')}`;
}

async function readCredentials(config: KubeConfig): Promise<Credentials> {
  const target: Parameters<KubeConfig['applyToHTTPSOptions']>[0] & { servername?: string } = {};
  await config.applyToHTTPSOptions(target);
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(target.headers ?? {})) {
    // A token file often ends in a newline, which no header may hold.
    if (value !== undefined) headers[name.toLowerCase()] = String(value).trim();
  }
  if (typeof target.auth === 'string') {
    headers.authorization = `Basic ${Buffer.from(target.auth).toString('base64')}`;
  }
  const { ca, cert, key, rejectUnauthorized, servername } = target;
  const tls = { ca, cert, key, rejectUnauthorized, servername };
  return { headers, tls: Object.fromEntries(Object.entries(tls).filter(([, value]) => value !== undefined)) };
}
