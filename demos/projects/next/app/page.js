'use client';

import { useEffect } from 'react';

export default function Page() {
  // The package runs in the browser only, so that it is imported when the page is there.
  useEffect(() => void import('./show.js'), []);
  return (
    <main>
      <h1>Clothes, in 8 bits</h1>
      <p id="status" role="status">
        Loading the network ...
      </p>
      <ul id="pictures" />
    </main>
  );
}
