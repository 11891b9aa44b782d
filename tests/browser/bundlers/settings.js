// Settings of env.wasm for rows that need any; most need none.
