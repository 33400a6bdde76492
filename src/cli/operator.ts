import { describeError } from '../lib/errors.ts';
import { createLogger } from '../lib/log.ts';
import { startOperator } from '../operator/main.ts';
import { OptionsError, parseOptions, usage } from '../operator/options.ts';

/** `convoke operator`: runs until SIGTERM or SIGINT, then stops gracefully; a second signal ends it at once. */
export async function operator(argv: string[]): Promise<number> {
  let options: ReturnType<typeof parseOptions>;
  try {
    options = parseOptions(argv, process.env);
  } catch (error) {
    if (!(error instanceof OptionsError)) throw error;
    process.stderr.write(`convoke operator: ${error.message}\nTry --help.\n`);
    return 2;
  }
  if (options === 'help') {
    process.stdout.write(usage());
    return 0;
  }
  const log = createLogger(options.logLevel, { component: 'convoke' });
  const stopped = Promise.withResolvers<string>();
  const onSignal = (signal: NodeJS.Signals): void => {
    process.off('SIGTERM', onSignal);
    process.off('SIGINT', onSignal);
    stopped.resolve(signal);
  };
  process.on('SIGTERM', onSignal);
  process.on('SIGINT', onSignal);
  try {
    const running = await startOperator(options, log);
    const reason = await stopped.promise;
    log.info({ reason }, 'stopping');
    await running.stop();
    log.info({}, 'stopped');
    return 0;
  } catch (error) {
    log.error({ error: describeError(error) }, 'operator failed');
    return 1;
  }
}
