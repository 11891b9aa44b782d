// The header of saved plans (Header of src/plan/saved/file.cpp), as far as the loader reads it before the core does.

const MAGIC = '\x93RQPLAN\n';

/** The place of the byte that says whether the plan needs the extended operators. */
const OPERATORS_AT = 15;

/** @internal Whether the bytes are from {@link InferenceSession.toPlan}. */
export function isPlan(bytes: Uint8Array): boolean {
  return MAGIC.split('').every((letter, at) => bytes[at] === letter.charCodeAt(0));
}

/** @internal Whether steps of a saved plan are extended operators. */
export function needsOperators(plan: Uint8Array): boolean {
  return plan[OPERATORS_AT] === 1;
}
