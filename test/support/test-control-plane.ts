import { fileURLToPath } from 'node:url';
import { type ControlPlane, startControlPlane } from '../../deploy/local/control-plane.ts';
import { applyManifests } from '../../deploy/local/manifests.ts';

const CRDS = fileURLToPath(new URL('../../crds', import.meta.url));

/** Users that may do nothing until a test binds them to a role. Their names are the same in each control plane. */
export const TEST_USERS = ['alice', 'bob', 'carol'] as const;
export type TestUser = (typeof TEST_USERS)[number];

export function tokenOf(user: TestUser): string {
  return `token-of-${user}`;
}

/** A control plane as tests expect it: with `TEST_USERS`, and the CRDs Established. */
export async function startTestControlPlane(signal: AbortSignal): Promise<ControlPlane> {
  const users = TEST_USERS.map((name) => ({ token: tokenOf(name), name, uid: name, groups: ['convoke-test'] }));
  const controlPlane = await startControlPlane({ users }, signal);
  try {
    await applyManifests(controlPlane.kubeconfigPath, [CRDS], signal);
    return controlPlane;
  } catch (error) {
    await controlPlane.stop();
    throw error;
  }
}
