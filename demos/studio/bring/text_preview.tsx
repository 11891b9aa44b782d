// A text beside its tokens.

import { useState } from 'preact/hooks';
import { Pager } from './pager.js';
import type { Samples } from './samples.js';

const MOST = 60;

export function TextPreview({ given }: { given: Samples }) {
  const [index, setIndex] = useState(0);
  const { text, tokens } = given.text!(index);
  return (
    <div class="preview">
      <p>{text}</p>
      <p class="muted small">As the network reads it, {tokens.length} tokens:</p>
      <ul class="chips">
        {tokens.slice(0, MOST).map((token, at) => (
          <li key={at}>{token}</li>
        ))}
        {tokens.length > MOST && <li>{tokens.length - MOST} more</li>}
      </ul>
      <Pager
        index={index}
        count={given.count}
        name={`line ${index + 1} of ${given.count}`}
        onChange={setIndex}
      />
    </div>
  );
}
