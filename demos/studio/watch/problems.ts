// Errors in plain words.

/** An error as the page shows it. */
export interface Problem {
  title: string;
  text: string;
  /** A remedy for the user. */
  hint: string;
  /** Name of the operator where it happened. */
  node: string | undefined;
}

const titles: Readonly<Record<string, string>> = {
  INVALID_MODEL: 'This file is not a valid ONNX model.',
  UNSUPPORTED: 'The engine cannot do this.',
  INVALID_ARGUMENT: 'A setting or a sample does not fit.',
  SHAPE_MISMATCH: 'The samples have another shape than the model takes.',
  TYPE_MISMATCH: 'The samples have another type of numbers than the model takes.',
  INVALID_QUANTIZATION: 'These bits are not possible here.',
  OUT_OF_MEMORY: 'The browser has no more memory for this.',
  LOAD_FAILED: 'A file could not be read.',
  INTERNAL: 'The engine made a mistake.',
};

const remedies: Readonly<Record<string, string>> = {
  SHAPE_MISMATCH: 'Change the size or the layout under Samples.',
  OUT_OF_MEMORY: 'Close other tabs, or use fewer samples.',
  INTERNAL: 'Please report it together with the model.',
};

/** The members of a RequantError, which this file does not import: the engine loads late. */
interface EngineError {
  code?: string;
  message: string;
  node?: string;
  hint?: string;
}

/** An error that the studio itself reports, in words for users. */
export class StudioError extends Error {
  constructor(
    readonly title: string,
    message: string,
    readonly hint = '',
  ) {
    super(message);
  }
}

const sentence = (text: string) => {
  const trimmed = text.trim();
  if (trimmed === '') return '';
  const capital = trimmed[0]!.toUpperCase() + trimmed.slice(1);
  return /[.!?]$/.test(capital) ? capital : `${capital}.`;
};

/** The error as the page shows it. */
export function describe(error: unknown): Problem {
  if (error instanceof StudioError) {
    const { title, message, hint } = error;
    return { title, text: sentence(message), hint: sentence(hint), node: undefined };
  }
  const { code = '', message, node, hint } = error as EngineError;
  return {
    title: titles[code] ?? 'Something went wrong.',
    text: sentence(String(message ?? error)),
    hint: sentence(hint ?? remedies[code] ?? ''),
    node,
  };
}
