import { createHash } from 'node:crypto';
import { access, constants, mkdir, readFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { BUILD_FLAGS, buildAssets } from './build.ts';
import { lockFile } from './file-lock.ts';
import { type ProgressStream, startProgress } from './progress.ts';

/** Paths of the two binaries that make a control plane. */
export interface Assets {
  readonly etcd: string;
  readonly kubeApiserver: string;
}

export interface AssetOptions {
  readonly env: NodeJS.ProcessEnv;
  readonly stream: ProgressStream;
}

const MODULE = fileURLToPath(new URL('.', import.meta.url));

/**
 * The binaries, from the first place that has both: the folder `KUBEBUILDER_ASSETS` (controller-runtime's convention),
 * our cache, a build from Go modules into that cache. Of several processes that find the cache empty, one builds.
 */
export async function resolveAssets({ env, stream }: AssetOptions, signal: AbortSignal): Promise<Assets> {
  const given = env.KUBEBUILDER_ASSETS;
  if (given !== undefined && given !== '') {
    const assets = await assetsIn(given);
    if (assets !== undefined) return assets;
    stream.write(`KUBEBUILDER_ASSETS=${given} does not hold both etcd and kube-apiserver: not used\n`);
  }
  const folder = await cacheFolder(env);
  return (await assetsIn(folder)) ?? (await buildOnce(folder, { env, stream }, signal));
}

async function buildOnce(folder: string, { env, stream }: AssetOptions, signal: AbortSignal): Promise<Assets> {
  await mkdir(join(folder, '..'), { recursive: true });
  let waiting: ReturnType<typeof startProgress> | undefined;
  const onWait = (): void => {
    waiting = startProgress('Another process builds the control plane; waiting for it', stream);
  };
  try {
    const lock = await lockFile(`${folder}.lock`, onWait, signal);
    waiting?.end('it has ended');
    waiting = undefined;
    try {
      if ((await assetsIn(folder)) === undefined) await buildAssets({ module: MODULE, folder, env, stream }, signal);
    } finally {
      lock.release();
    }
  } finally {
    waiting?.end('stopped');
  }
  const assets = await assetsIn(folder);
  if (assets === undefined) throw new Error(`the build left no etcd and kube-apiserver in ${folder}`);
  return assets;
}

/** Named after everything that goes into the binaries, so a change of it is another folder and never a stale hit. */
async function cacheFolder(env: NodeJS.ProcessEnv): Promise<string> {
  const hash = createHash('sha256');
  for (const file of ['go.mod', 'go.sum']) hash.update(await readFile(join(MODULE, file)));
  hash.update(`${process.platform} ${process.arch} ${BUILD_FLAGS.join(' ')}`);
  const base = env.XDG_CACHE_HOME || join(env.HOME ?? homedir(), '.cache');
  return join(base, 'convoke', `control-plane-${hash.digest('hex').slice(0, 16)}`);
}

async function assetsIn(folder: string): Promise<Assets | undefined> {
  const assets = { etcd: join(folder, 'etcd'), kubeApiserver: join(folder, 'kube-apiserver') };
  try {
    for (const path of Object.values(assets)) await access(path, constants.X_OK);
    return assets;
  } catch {
    return undefined;
  }
}
