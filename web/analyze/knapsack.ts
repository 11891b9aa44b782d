// Makes one choice for each layer, with the least noise within a budget: the multiple-choice knapsack
// problem.

/** @internal The noise and the cost of one choice for a layer. */
export interface Priced {
  readonly noise: number;
  /** Bytes or milliseconds, 0 or more. */
  readonly cost: number;
}

/** One set of choices for the layers so far: the last layer's choice, and a link to the others. */
interface State extends Priced {
  readonly at: number;
  readonly rest: State | undefined;
}

const MOST_STATES = 2048;

/**
 * @internal The index of the choice for each layer, or undefined when not even the cheapest choices fit.
 * Dynamic programming over the sets of choices that no other set beats in both cost and noise (Kellerer,
 * Pferschy, Pisinger: Knapsack Problems, 2004, section 11.5). It is exact while there are at most {@link
 * MOST_STATES} of them; beyond that, sets of nearly the same cost count as one.
 */
export function leastNoise(
  layers: readonly (readonly Priced[])[],
  budget: number,
): number[] | undefined {
  const cheapest = layers.map((list) => Math.min(...list.map(({ cost }) => cost)));
  let left = cheapest.reduce((sum, cost) => sum + cost, 0); // the least that the remaining layers cost
  let states: State[] = [{ noise: 0, cost: 0, at: -1, rest: undefined }];
  for (const [layer, list] of layers.entries()) {
    left -= cheapest[layer]!;
    const next: State[] = [];
    for (const rest of states) {
      list.forEach(({ noise, cost }, at) => {
        const total = rest.cost + cost;
        if (total + left <= budget) next.push({ noise: rest.noise + noise, cost: total, at, rest });
      });
    }
    states = thin(unbeaten(next));
  }
  const best = states.at(-1);
  if (!best) return undefined;
  const taken: number[] = [];
  for (let state = best; state.rest; state = state.rest) taken.unshift(state.at);
  return taken;
}

/** The states that no other beats, from the cheapest to the one of least noise. */
function unbeaten(states: State[]): State[] {
  let least = Infinity;
  return states
    .sort((a, b) => a.cost - b.cost || a.noise - b.noise)
    .filter(({ noise }) => {
      const better = noise < least;
      if (better) least = noise;
      return better;
    });
}

function thin(states: State[]): State[] {
  if (states.length <= MOST_STATES) return states;
  const first = states[0]!.cost;
  const step = (states.at(-1)!.cost - first) / MOST_STATES;
  const place = ({ cost }: State) => Math.floor((cost - first) / step);
  return states.filter(
    (state, at) => at === 0 || at === states.length - 1 || place(states[at + 1]!) !== place(state),
  );
}
