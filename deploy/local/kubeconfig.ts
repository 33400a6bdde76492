import { readFile, writeFile } from 'node:fs/promises';
import { stringify } from 'yaml';

/** What a client needs to reach an API server as one user. */
export interface Access {
  readonly url: string;
  readonly token: string;
  /** PEM. */
  readonly caFile: string;
}

/** Writes a kubeconfig that depends on no other file, readable by its owner only. */
export async function writeKubeconfig(path: string, { url, token, caFile }: Access): Promise<void> {
  const ca = await readFile(caFile);
  const name = 'convoke-local';
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name, cluster: { server: url, 'certificate-authority-data': ca.toString('base64') } }],
    users: [{ name, user: { token } }],
    contexts: [{ name, context: { cluster: name, user: name, namespace: 'default' } }],
    'current-context': name,
  };
  await writeFile(path, stringify(config), { mode: 0o600 });
}
