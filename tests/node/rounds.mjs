// How much a test does in CI, which has another share of the long tests every day (UTC).

/** Days since 1970 (UTC), or REQUANT_DAY, which repeats what CI tested on another day. */
const DAY = Number(process.env.REQUANT_DAY ?? Math.floor(Date.now() / 86_400_000));
const SHARES = 6;

/**
 * The rounds [first, end): the first `quick` ones; with REQUANT_LONG=1 the first `full` ones, of which CI takes
 * another sixth every day, and never fewer than `quick`.
 */
export function roundsOf(quick, full) {
  const { REQUANT_LONG, CI } = process.env;
  if (!REQUANT_LONG) return [0, quick];
  if (!CI) return [0, full];
  const share = DAY % SHARES;
  const first = Math.floor((full * share) / SHARES);
  return [first, Math.max(first + quick, Math.floor((full * (share + 1)) / SHARES))];
}

/** The list, or in CI every third of its elements, others every day. */
export function shareOfToday(list, shares = 3) {
  return process.env.CI ? list.filter((_, i) => i % shares === DAY % shares) : list;
}
