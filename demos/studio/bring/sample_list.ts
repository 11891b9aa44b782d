// The list of the networks that are one click away.

import { found } from 'virtual:samples';

export type SampleId = 'clothes' | 'faces' | 'wake';

/** The samples of this build, with the end of the sentence "Try one that ...". */
export const sampleList: readonly { id: SampleId; text: string }[] = [
  { id: 'clothes', text: 'tells clothes apart' },
  ...(found.faces ? [{ id: 'faces', text: 'finds faces' } as const] : []),
  ...(found.wake ? [{ id: 'wake', text: 'hears “hey Jarvis”' } as const] : []),
];
