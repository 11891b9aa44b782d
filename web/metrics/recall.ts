import { type Meter, badTarget, numbersOf, outputOf, rightOf } from './metric.js';

/**
 * Recall@k of embeddings: the share of samples that have another sample of the same label among the `k`
 * nearest other ones by cosine (Oh Song et al., Deep Metric Learning via Lifted Structured Feature Embedding,
 * arXiv:1511.06452, section 6; Jegou et al., Product Quantization, TPAMI 2011). Samples whose label no other
 * sample has are left out. All embeddings stay in memory until the value is asked for. Of equal cosines the
 * earlier sample counts as nearer. The target is a number or a text.
 */
export function recall(k: number, output: string | undefined): Meter {
  const embeddings: Float64Array[] = [];
  const labels: (number | string)[] = [];
  return {
    add(outputs, sample) {
      const right = rightOf(sample);
      if (typeof right !== 'number' && typeof right !== 'string') {
        throw badTarget('recall', sample, 'a number or a text that samples of one kind share');
      }
      const embedding = Float64Array.from(numbersOf(outputOf(outputs, output)));
      const length = Math.hypot(...embedding) || 1;
      embeddings.push(embedding.map((value) => value / length));
      labels.push(right);
    },
    value() {
      let [found, asked] = [0, 0];
      const dot = (a: Float64Array, b: Float64Array) =>
        a.reduce((sum, value, index) => sum + value * b[index]!, 0);
      embeddings.forEach((own, query) => {
        if (!labels.some((label, at) => at !== query && label === labels[query])) return;
        asked += 1;
        const nearest = embeddings
          .map((other, at) => ({ at, cosine: dot(own, other) }))
          .filter(({ at }) => at !== query)
          .sort((a, b) => b.cosine - a.cosine || a.at - b.at)
          .slice(0, k);
        // An embedding with NaN has no neighbors.
        const finite = nearest.every(({ cosine }) => !Number.isNaN(cosine));
        if (finite && nearest.some(({ at }) => labels[at] === labels[query])) found += 1;
      });
      return found / asked;
    },
  };
}
