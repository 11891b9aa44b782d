// Each Worker of another engine gets a file with its inputs, and answers with the median of the times of its runs.

/** A model to run, and how often. */
export interface OtherRequest {
  model: Uint8Array;
  /** The inputs by name, in the order of the file. */
  feeds: Readonly<Record<string, OtherFeed>>;
  threads: number;
  runs: number;
  /** Milliseconds behind which no further run begins. */
  longest: number;
}

export interface OtherFeed {
  type: string;
  data: unknown;
  dims: readonly number[];
}

/** Median of milliseconds, or why there is none. */
export interface OtherAnswer {
  ms?: number;
  error?: string;
}

/** A loaded model: one run of it, and how its memory is given back. */
export interface OtherSession {
  run(): Promise<void>;
  release(): Promise<void> | void;
}

async function median(open: () => Promise<OtherSession>, request: OtherRequest): Promise<number> {
  const { runs, longest } = request;
  const session = await open();
  // The first run is slower than all others: it is not counted.
  await session.run();
  const times: number[] = [];
  const began = performance.now();
  while (times.length < runs && (times.length === 0 || performance.now() - began < longest)) {
    const start = performance.now();
    await session.run();
    times.push(performance.now() - start);
  }
  await session.release();
  times.sort((a, b) => a - b);
  return times[times.length >> 1]!;
}

/** Answers the requests that reach this Worker, by sessions that `open` makes. */
export function answerRequests(open: (request: OtherRequest) => Promise<OtherSession>): void {
  const scope = globalThis as unknown as {
    postMessage(answer: OtherAnswer): void;
    onmessage: (event: MessageEvent<OtherRequest>) => void;
  };
  scope.onmessage = ({ data }) =>
    void median(() => open(data), data).then(
      (ms) => scope.postMessage({ ms }),
      (error: unknown) =>
        scope.postMessage({ error: error instanceof Error ? error.message : String(error) }),
    );
}
