// How many random cases a test makes.

/**
 * The rounds [first, end): the first `quick` ones; with REQUANT_LONG=1 the first `full` ones, of which CI takes
 * another third every day (UTC).
 */
export function roundsOf(quick, full) {
  const { REQUANT_LONG, CI } = process.env;
  if (!REQUANT_LONG) return [0, quick];
  if (!CI) return [0, full];
  const day = Math.floor(Date.now() / 86_400_000) % 3;
  return [Math.floor((full * day) / 3), Math.floor((full * (day + 1)) / 3)];
}
