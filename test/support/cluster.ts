import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import type { ControlPlane } from '../../deploy/local/control-plane.ts';
import { writeKubeconfig } from '../../deploy/local/kubeconfig.ts';
import { request } from '../../deploy/local/request.ts';
import { startTestControlPlane, type TestUser, tokenOf } from './test-control-plane.ts';

/** A real API server with our CRDs. Clean up nothing: use a namespace of your own, it goes with the control
 * plane. No controller runs: the ClusterRoles `admin`, `edit` and `view` are empty (they are aggregated), owners are not
 * collected, a deleted namespace stays. */
export interface TestCluster {
  readonly url: string;
  /** The administrator's. */
  readonly token: string;
  /** PEM file of the CA that signed the server's certificate. */
  readonly caFile: string;
  /** The administrator's. */
  readonly kubeconfigPath: string;
  /** Creates a namespace `<prefix>-<random>` and resolves with its name. */
  namespace(prefix?: string): Promise<string>;
  /** Token of an ordinary user, group `convoke-test`, who may do nothing until RBAC says so. */
  user(name: TestUser): string;
  /** Path of a new kubeconfig for that token: a user's, or what `kubectl create token` gave. */
  kubeconfigFor(token: string): Promise<string>;
}

/** A cluster that a test may starve (SIGSTOP), kill and stop. */
export interface OwnCluster extends TestCluster {
  readonly pids: { readonly etcd: number; readonly kubeApiserver: number };
  stop(): Promise<void>;
}

/** How `test/run.ts` tells the test processes which control plane is theirs: the JSON of a `SharedCluster`. */
export const SHARED_CLUSTER = 'CONVOKE_TEST_CLUSTER';
export type SharedCluster = Pick<ControlPlane, 'url' | 'token' | 'caFile' | 'kubeconfigPath' | 'folder'>;

const START_MS = 20 * 60_000;
const REQUEST_MS = 30_000;

let shared: Promise<TestCluster> | undefined;

/** The control plane of this test run; without one (`npx node --test test/x.cluster.test.ts`) one for this process. */
export function testCluster(): Promise<TestCluster> {
  shared ??= findOrStart();
  return shared;
}

/** A control plane for one test alone. Call `stop` in an `after` hook; it also ends with the process. */
export async function ownCluster(): Promise<OwnCluster> {
  const controlPlane = await startTestControlPlane(AbortSignal.timeout(START_MS));
  controlPlane.unref();
  return { ...clusterOf(controlPlane), pids: controlPlane.pids, stop: controlPlane.stop };
}

async function findOrStart(): Promise<TestCluster> {
  const given = process.env[SHARED_CLUSTER];
  return given === undefined ? ownCluster() : clusterOf(JSON.parse(given) as SharedCluster);
}

function clusterOf({ url, token, caFile, kubeconfigPath, folder }: SharedCluster): TestCluster {
  const access = { url, token, caFile };
  return {
    ...access,
    kubeconfigPath,
    async namespace(prefix = 'test') {
      const name = `${prefix}-${randomBytes(4).toString('hex')}`;
      const body = { apiVersion: 'v1', kind: 'Namespace', metadata: { name } };
      const signal = AbortSignal.timeout(REQUEST_MS);
      const answer = await request(access, 'POST', '/api/v1/namespaces', { body, signal });
      if (answer.status !== 201) throw new Error(`creating namespace ${name}: ${answer.status} ${answer.body}`);
      return name;
    },
    user: tokenOf,
    async kubeconfigFor(userToken) {
      const path = join(folder, `kubeconfig-${randomBytes(4).toString('hex')}`);
      await writeKubeconfig(path, { ...access, token: userToken });
      return path;
    },
  };
}
